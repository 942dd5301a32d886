// Package elements has the types that the packages of formats share in their exported functions: tensors of elements
// that DLPack has no data type for, and the errors that every format has.
//
// The packages of formats decode strings, media, resources, variants and quantised numbers to [Elements], and their
// AppendElements functions encode them. Where two formats have the type, the Elements of one can be encoded in the other
// without conversion.
//
// Ownership: Elements that were decoded alias the input. They do not keep foreign memory alive, so that the tensor that
// owns the input must stay open while they are in use.
//
// A [Sink] is for callers that keep elements in memory of their own, such as the columns of Apache Arrow: a decoder
// passes it a few elements at a time and makes no slice for all of them.
package elements

// Package elements has the types that the packages of formats share: tensors whose elements have no DLPack data type,
// and the errors of several formats.
//
// The packages of formats decode strings, media, resources, variants and quantised numbers to [Elements], and their
// AppendElements functions encode them. If two formats have the same type, Elements decoded from one format can be
// encoded in the other without conversion.
//
// Ownership: Elements that were decoded alias the input. They do not keep foreign memory alive: the tensor that owns
// the input must stay open while they are in use.
//
// A [Sink] is for callers that store elements themselves, for example in columns of Apache Arrow. A decoder passes a
// few elements at a time to the Sink, and makes no slice of all elements.
package elements

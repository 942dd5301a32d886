// Package elements has the types that packages decthings and tensorflow share in their exported functions: tensors of
// elements that DLPack has no data type for, and the errors that every format has.
//
// Packages decthings and tensorflow decode strings, media, resources, variants and quantised numbers to [Elements], and
// their AppendElements functions encode them. Where both formats have the type, the Elements of one can be encoded in
// the other without conversion:
//
//	v, err := decthings.Decode(data)                          // v.Elements is of type string
//	proto, err := tensorflow.AppendElements(nil, v.Elements)  // a TensorProto of DT_STRING
//
// Ownership: Elements that were decoded alias the input. They do not keep foreign memory alive, so that the tensor that
// owns the input must stay open while they are in use.
//
// A [Sink] is for callers that keep elements in memory of their own, such as the columns of Apache Arrow: a decoder
// passes it a few elements at a time and makes no slice for all of them.
package elements

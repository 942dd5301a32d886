// Package elements has the types that the format packages share: a type for tensors whose elements have no DLPack
// data type, and the errors that several format packages return.
//
//	texts := &elements.Elements{Type: "string", Shape: []int64{2}, Values: [][]byte{[]byte("red"), []byte("green")}}
//	data, err := tensorflow.AppendElements(nil, texts)
//	v, err := tensorflow.Decode(data) // v.Elements has the same type, shape and values
//
// The format packages decode strings, media, resources, variants and quantised numbers to [Elements], and their
// AppendElements functions encode them. If two formats have the same type, Elements decoded from one format can be
// encoded in the other without conversion.
//
// Ownership: Decoded elements share memory with the input. They do not keep foreign memory alive: the tensor that owns
// the input must stay open while the elements are in use.
//
// A [Sink] is for callers that store elements themselves, for example in columns of Apache Arrow. A decoder passes a
// few elements at a time to the Sink, instead of making a slice of all elements.
package elements

// Package strictjson reads and writes JSON text (RFC 8259) for formats in which two readers must not read a text
// differently. It is stricter than the RFC where that leaves room: the names of an object must be unique after their
// escapes are decoded, \u escapes of surrogates must come in pairs, and arrays and objects may be nested at most
// [MaxDepth] deep.
//
// A [Scanner] decodes nothing that the caller does not ask for: values stay text, so that metadata costs one scan and
// numbers keep all their digits.
package strictjson

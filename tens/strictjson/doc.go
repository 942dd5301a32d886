// Package strictjson reads and writes JSON text (RFC 8259) for formats in which all readers must read a text in the
// same way. It is stricter than the RFC: the names of an object must be unique after their escapes are decoded, \u
// escapes of surrogates must come in pairs, and arrays and objects may be nested at most [MaxDepth] deep.
//
// A [Scanner] decodes only the values that the caller asks for. Other values are kept as text. Metadata is
// therefore scanned only once, and numbers lose no digits.
package strictjson

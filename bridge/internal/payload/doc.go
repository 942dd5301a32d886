// Package payload has the rules about the bytes of a payload that the codecs share: alignment of new memory, byte
// order, booleans, and payloads in memory that is not Go's.
package payload

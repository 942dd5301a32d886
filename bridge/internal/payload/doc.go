// Package payload has the rules about the bytes of a payload that the codecs share: how new memory is aligned, the order
// of the bytes of a number, the bytes of booleans, and payloads in memory that is not Go's.
package payload

package decthings_test

import (
	"fmt"

	"github.com/dlbridge/dlbridge/bridge/decthings"
	"github.com/dlbridge/dlbridge/bridge/elements"
)

// column is a column of strings in the layout of Apache Arrow: one buffer with the bytes of all strings, and the offset
// at which each string ends.
type column struct {
	bytes   []byte
	offsets []int32
}

func (c *column) Memory(size int) ([]byte, error) { return make([]byte, size), nil }

func (c *column) Begin(dtype string, shape []int64, count int, formats bool) error {
	if dtype != "string" || len(shape) != 1 {
		return fmt.Errorf("%s%v is no column of strings", dtype, shape)
	}
	c.offsets = append(make([]int32, 0, count+1), 0)
	return nil
}

func (c *column) Take(values [][]byte, _ []string) {
	for _, v := range values {
		c.bytes = append(c.bytes, v...)
		c.offsets = append(c.offsets, int32(len(c.bytes)))
	}
}

func ExampleDecodeViewTo() {
	words := &elements.Elements{Type: "string", Shape: []int64{2}, Values: [][]byte{[]byte("hello"), []byte("world")}}
	data, _ := decthings.AppendElements(nil, words, decthings.Doc)

	var c column
	_, err := decthings.DecodeViewTo(&c, data, decthings.Doc)
	fmt.Printf("%s %d %v\n", c.bytes, c.offsets, err)
	// Output: helloworld [0 5 10] <nil>
}

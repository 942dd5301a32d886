// Product reads a ZIO message with a matrix and a vector, and answers with their product and the transpose of the matrix.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/dlbridge/dlbridge/bridge"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/tens"
)

func main() {
	if err := answer(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func answer(r io.Reader, w io.Writer) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	question, err := tens.DecodePacked(data)
	if err != nil {
		return err
	}
	ts, err := bridge.Decode(question) // views of data
	if err != nil {
		return err
	}
	for _, t := range ts {
		defer t.Close()
	}
	y, err := product(ts)
	if err != nil {
		return err
	}
	defer y.Close()
	transposed, err := ts[0].Transpose(1, 0) // a view
	if err != nil {
		return err
	}
	defer transposed.Close()
	reply, _, err := bridge.Encode([]*dlpack.Tensor{y, transposed}, bridge.Metadata([]byte(`{"of":"Go"}`)))
	if err != nil {
		return err
	}
	reply.Origin, reply.Seqno = question.Origin, question.Seqno+1
	packed, err := reply.AppendPacked(nil)
	if err != nil {
		return err
	}
	_, err = w.Write(packed)
	return err
}

// product reads the elements one by one, because the matrix may have any order, and any address in the packed form.
func product(ts []*dlpack.Tensor) (*dlpack.Tensor, error) {
	if len(ts) != 2 || ts[0].Rank() != 2 || ts[1].Rank() != 1 || ts[0].Dim(1) != ts[1].Dim(0) || ts[1].Dim(0) == 0 {
		return nil, fmt.Errorf("product: %s are not a matrix and a vector", ts)
	}
	sums := make([]float64, ts[0].Dim(0))
	for i := range sums {
		for j := range ts[1].Dim(0) {
			a, errA := dlpack.At[float64](ts[0], int64(i), j)
			x, errX := dlpack.At[float64](ts[1], j)
			if err := errors.Join(errA, errX); err != nil {
				return nil, err
			}
			sums[i] += a * x
		}
	}
	return dlpack.FromSlice(sums, ts[0].Dim(0))
}

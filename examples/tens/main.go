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
	ts, err := bridge.Decode(question, bridge.Join()) // views of data; a tensor in several parts is copied
	if err != nil {
		return err
	}
	for _, t := range ts {
		defer t.Close()
	}
	label, err := question.DecodeLabel()
	if err != nil {
		return err
	}
	i, errA := label.Find("a")
	j, errX := label.Find("x")
	if err := errors.Join(errA, errX); err != nil {
		return err
	}
	y, err := product(ts[i], ts[j])
	if err != nil {
		return err
	}
	defer y.Close()
	transposed, err := ts[i].Transpose(1, 0) // a view
	if err != nil {
		return err
	}
	defer transposed.Close()
	reply, _, err := bridge.Encode([]*dlpack.Tensor{y, transposed}, bridge.Names("y", "transpose"), bridge.Metadata([]byte(`{"of":"Go"}`)))
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

// product reads the elements one by one, because the matrix may have any order and, in the packed form, any address.
func product(a, x *dlpack.Tensor) (*dlpack.Tensor, error) {
	if err := x.Require(dlpack.Float64, -1); err != nil {
		return nil, fmt.Errorf("product: %w", err)
	}
	if err := a.Require(dlpack.Float64, -1, x.Dim(0)); err != nil {
		return nil, fmt.Errorf("product: %w", err)
	}
	sums := make([]float64, a.Dim(0))
	for i := range sums {
		for j := range x.Dim(0) {
			u, errA := dlpack.At[float64](a, int64(i), j)
			v, errX := dlpack.At[float64](x, j)
			if err := errors.Join(errA, errX); err != nil {
				return nil, err
			}
			sums[i] += u * v
		}
	}
	return dlpack.FromSlice(sums, a.Dim(0))
}

package main

import (
	"fmt"
	"math"
	"strconv"

	"github.com/dlbridge/dlbridge/bridge/files"
	"github.com/dlbridge/dlbridge/dlpack"
)

// statistics describe the numbers of a tensor. The other fields ignore NaN, and are NaN if there are no numbers.
type statistics struct {
	Min  number `json:"min"`
	Max  number `json:"max"`
	Mean number `json:"mean"`
	NaN  int64  `json:"nan"`
}

// A number is a text in JSON if it is infinite or NaN, because JSON has no such numbers.
type number float64

// MarshalJSON implements [json.Marshaler].
func (n number) MarshalJSON() ([]byte, error) {
	text := strconv.FormatFloat(float64(n), 'g', -1, 64)
	if math.IsInf(float64(n), 0) || math.IsNaN(float64(n)) {
		text = strconv.Quote(text)
	}
	return []byte(text), nil
}

// read opens a tensor and takes its values and statistics. Opening it also makes the checks that only a copy can make.
func (row *tensor) read(f *files.File, values bool) error {
	t, err := f.Tensor(row.Name)
	if err != nil {
		return err
	}
	defer t.Close()
	if !values {
		return nil
	}
	row.Values = fmt.Sprint(t)
	if t.Rank() != len(row.Shape) || t.DType().Code() == dlpack.CodeComplex { // quantised blocks, or complex numbers, which have no order
		return nil
	}
	if !t.IsContiguous() { // the order of the numbers does not matter here, so column-major memory needs no copy
		if t, err = t.Transpose(); err != nil {
			return err
		}
		defer t.Close()
	}
	rows, _, err := t.Contiguous(dlpack.RowMajor)
	if err != nil {
		return err
	}
	defer rows.Close()
	flat, err := rows.Reshape(-1)
	if err != nil {
		return err
	}
	defer flat.Close()
	row.Statistics = &statistics{Min: number(math.NaN()), Max: number(math.NaN())}
	return row.Statistics.of(flat)
}

// of adds the elements of a one-dimensional tensor, some at a time.
func (s *statistics) of(flat *dlpack.Tensor) error {
	const most = 1 << 20
	sum, n := 0.0, flat.NumElements()
	for start := int64(0); start < n; start += most {
		part, err := flat.Narrow(0, start, min(most, n-start))
		if err != nil {
			return err
		}
		numbers, err := part.Convert(dlpack.Float64)
		part.Close()
		if err != nil {
			return err
		}
		err = dlpack.Read(numbers, func(values []float64) error {
			for _, v := range values {
				if math.IsNaN(v) {
					s.NaN++
					continue
				}
				sum += v
				if !(v >= float64(s.Min)) {
					s.Min = number(v)
				}
				if !(v <= float64(s.Max)) {
					s.Max = number(v)
				}
			}
			return nil
		})
		numbers.Close()
		if err != nil {
			return err
		}
	}
	s.Mean = number(sum / float64(n-s.NaN))
	return nil
}

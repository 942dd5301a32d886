package repotest

import "reflect"

// Number returns a number of any type, or a bool as 0 or 1.
func Number(x any) complex128 {
	switch v := reflect.ValueOf(x); {
	case v.CanInt():
		return complex(float64(v.Int()), 0)
	case v.CanUint():
		return complex(float64(v.Uint()), 0)
	case v.CanFloat():
		return complex(v.Float(), 0)
	case v.CanComplex():
		return v.Complex()
	case v.Bool():
		return 1
	}
	return 0
}

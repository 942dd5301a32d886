package extent

import "fmt"

// Dimensions returns "1 dimension", "2 dimensions".
func Dimensions(n int) string { return Number(n, "dimension", "dimensions") }

// Elements returns "1 element", "2 elements".
func Elements(n int64) string { return Number(n, "element", "elements") }

// Number returns the text of n things, for errors: "1 dimension", "2 dimensions".
func Number[T int | int64](n T, thing, things string) string {
	if n != 1 {
		thing = things
	}
	return fmt.Sprintf("%d %s", n, thing)
}

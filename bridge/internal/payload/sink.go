package payload

import "github.com/dlbridge/dlbridge/bridge/elements"

// Discard is a Sink that keeps nothing. If an input is known to be invalid, a decoder uses Discard to find the error
// without memory for the elements.
var Discard elements.Sink = discard{}

type discard struct{}

func (discard) Memory(size int) ([]byte, error)        { return make([]byte, size), nil }
func (discard) Begin(string, []int64, int, bool) error { return nil }
func (discard) Take([][]byte, []string)                {}

// A Collector receives elements of variable size one by one. It keeps them in its Elements, or passes them to a Sink, a
// few at a time.
type Collector struct {
	sink    elements.Sink // nil if the elements are kept
	values  [][]byte
	formats []string // nil for elements without formats
	n       int      // number of elements since the last call of sink.Take
}

// NewCollector returns a Collector for count elements. Add must be called at most count times. If sink is nil,
// NewCollector sets e.Values, and e.Formats if formats is true. Otherwise it calls sink.Begin.
//
// Errors, without a prefix: those of sink.Begin.
func NewCollector(e *elements.Elements, count int64, formats bool, sink elements.Sink) (Collector, error) {
	c := Collector{sink: sink}
	room := count
	if sink != nil {
		room = min(count, 128)
		if err := sink.Begin(e.Type, e.Shape, int(count), formats); err != nil {
			return c, err
		}
	}
	c.values = make([][]byte, room)
	if formats {
		c.formats = make([]string, room)
	}
	if sink == nil {
		e.Values, e.Formats = c.values, c.formats
	}
	return c, nil
}

// Add adds the next element and its format. The format is ignored if the elements have no formats.
func (c *Collector) Add(value []byte, format string) {
	if c.n == len(c.values) { // only with a sink
		c.pass()
	}
	c.values[c.n] = value
	if c.formats != nil {
		c.formats[c.n] = format
	}
	c.n++
}

// End passes the last elements to the sink, if there is one.
func (c *Collector) End() {
	if c.sink != nil {
		c.pass()
	}
}

// pass gives the elements since the last call to the sink.
func (c *Collector) pass() {
	c.sink.Take(c.values[:c.n], c.formats[:min(c.n, len(c.formats))])
	c.n = 0
}

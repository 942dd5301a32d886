package nervana

import (
	"fmt"
	"strings"
)

// A Role says how a computation uses a tensor, as a set of bits: the attributes of an AssignableTensorOp of the Nervana
// Graph documentation ("Tensors"). 0 means that the role is not known.
type Role uint8

// The bits of a [Role]. A compiler may rely on them.
const (
	IsConstant   Role = 1 << iota // the value never changes, so a compiler may inline it
	IsPersistent                  // the value is kept from one computation to the next
	IsTrainable                   // the tensor is in the list of variables
	IsInput                       // a value can be passed in at run time
)

// The four roles that the documentation defines.
const (
	Constant         = IsConstant | IsPersistent  // has its value when the graph is made
	Placeholder      = IsPersistent | IsInput     // is an input, typically from the host
	PersistentTensor = IsPersistent               // keeps its value, as the velocity in SGD does
	Variable         = IsPersistent | IsTrainable // is a parameter that training updates
)

var roleNames = map[Role]string{
	0: "not known", Constant: "constant", Placeholder: "placeholder", PersistentTensor: "persistent_tensor", Variable: "variable",
}

// String returns the name of the role, or the names of the attributes.
func (r Role) String() string {
	if name, ok := roleNames[r]; ok {
		return name
	}
	var names []string
	for bit, name := range []string{"constant", "persistent", "trainable", "input"} {
		if r&(1<<bit) != 0 {
			names = append(names, name)
			r &^= 1 << bit
		}
	}
	if r != 0 {
		names = append(names, fmt.Sprintf("%#x", uint8(r)))
	}
	return strings.Join(names, "+")
}

// Access says whether a tensor may be assigned to.
type Access uint8

const (
	AccessUnknown Access = iota
	RTensor              // may be read: it can stand on the right side of an assignment
	LTensor              // may be assigned to
)

func (a Access) String() string {
	if a > LTensor {
		return fmt.Sprintf("access %d", uint8(a))
	}
	return [...]string{"not known", "r-tensor", "l-tensor"}[a]
}

package nervana

import (
	"errors"
	"fmt"
	"strings"

	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

// The causes of errors that are particular to descriptions. Other errors have a cause of package dlpack, such as
// [dlpack.ErrLayout], a cause of package layout, such as [layout.ErrShape], or both.
var (
	// ErrConflict reports two descriptions that contradict each other.
	ErrConflict = errors.New("conflict")
	// ErrUnknown reports that the description lacks something the operation needs: the data type or the shape.
	ErrUnknown = errors.New("not known")
)

// A causedError is an error with a cause. Its text names the offending value and need not repeat the text of the cause.
type causedError struct {
	text  string
	cause error
}

func (e *causedError) Error() string { return e.text }
func (e *causedError) Unwrap() error { return e.cause }

// newError returns an error of operation op with the given cause.
func newError(op string, cause error, format string, args ...any) error {
	return &causedError{"nervana: " + op + ": " + fmt.Sprintf(format, args...), cause}
}

// conflict returns an [ErrConflict] of operation op. cause, which may be nil, identifies the property that conflicts.
func conflict(op string, cause error, format string, args ...any) error {
	return newError(op, errors.Join(ErrConflict, cause), format, args...)
}

// wrap returns err, which comes from package dlpack or layout, as an error of operation op. A cause of package layout
// gets the more general cause of package dlpack as well. It returns nil for nil.
func wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	var ours *causedError
	if errors.As(err, &ours) {
		return err
	}
	var theirs *dlpack.Error
	if errors.As(err, &theirs) {
		return newError(op, err, "%s", theirs.Where)
	}
	cause := dlpack.ErrLayout
	if errors.Is(err, layout.ErrOverflow) {
		cause = dlpack.ErrOverflow
	}
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "layout: "), "nervana: ")
	return newError(op, errors.Join(cause, err), "%s", text)
}

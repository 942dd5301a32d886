package onnxruntime

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/dlbridge/dlbridge/dlpack"
)

// A Runner is a session of ONNX Runtime that runs a model on tensors by name. Methods may be called from any goroutine,
// and several runs may take place at the same time.
type Runner struct {
	mu              sync.RWMutex                // held for reading during a run
	session         *ort.DynamicAdvancedSession // nil after Close
	inputs, outputs []ort.InputOutputInfo
}

// Open loads the model of a file. inputs and outputs name the inputs and outputs of a run; nil stands for all inputs or
// outputs of the model. Outputs that are not named are not computed. options may be nil. The binding loads the model a
// second time to find its shapes, so Open takes twice as long as the binding alone.
//
// Ownership: the Runner is the caller's. Lifetime: until its Close. Threads: any. On error: an error of the binding, [dlpack.ErrNull]
// for a name that the model lacks, or [dlpack.ErrDType] for an input or output that is not a tensor of a type that DLPack has.
func Open(path string, inputs, outputs []string, options *ort.SessionOptions) (*Runner, error) {
	allIn, allOut, err := ort.GetInputOutputInfoWithOptions(path, options)
	if err != nil {
		return nil, fmt.Errorf("onnxruntime: open: %w", err)
	}
	return newRunner(allIn, allOut, inputs, outputs, func(inputs, outputs []string) (*ort.DynamicAdvancedSession, error) {
		return ort.NewDynamicAdvancedSession(path, inputs, outputs, options)
	})
}

// OpenBytes is [Open] for a model in memory, which is not used after the call.
func OpenBytes(model []byte, inputs, outputs []string, options *ort.SessionOptions) (*Runner, error) {
	allIn, allOut, err := ort.GetInputOutputInfoWithONNXData(model)
	if err != nil {
		return nil, fmt.Errorf("onnxruntime: open: %w", err)
	}
	return newRunner(allIn, allOut, inputs, outputs, func(inputs, outputs []string) (*ort.DynamicAdvancedSession, error) {
		return ort.NewDynamicAdvancedSessionWithONNXData(model, inputs, outputs, options)
	})
}

func newRunner(allIn, allOut []ort.InputOutputInfo, inputs, outputs []string,
	open func(inputs, outputs []string) (*ort.DynamicAdvancedSession, error)) (*Runner, error) {
	r := &Runner{}
	var err error
	if r.inputs, err = choose("input", allIn, inputs); err != nil {
		return nil, fmt.Errorf("onnxruntime: open: %w", err)
	}
	if r.outputs, err = choose("output", allOut, outputs); err != nil {
		return nil, fmt.Errorf("onnxruntime: open: %w", err)
	}
	if r.session, err = open(names(r.inputs), names(r.outputs)); err != nil {
		return nil, fmt.Errorf("onnxruntime: open: %w", err)
	}
	return r, nil
}

// choose returns the descriptions of the inputs or outputs with the wanted names, or all if no names are given.
func choose(what string, all []ort.InputOutputInfo, wanted []string) ([]ort.InputOutputInfo, error) {
	if wanted == nil {
		wanted = names(all)
	}
	if len(wanted) == 0 {
		return nil, fmt.Errorf("the model has no %ss, but the binding runs only models with at least one: %w", what, dlpack.ErrNull)
	}
	var chosen []ort.InputOutputInfo
	for i, name := range wanted {
		at := slices.IndexFunc(all, func(x ort.InputOutputInfo) bool { return x.Name == name })
		switch {
		case at < 0:
			return nil, fmt.Errorf("the model has no %s %q; it has %s: %w", what, name, strings.Join(names(all), ", "), dlpack.ErrNull)
		case slices.Contains(wanted[:i], name):
			return nil, fmt.Errorf("%s %q is named twice: %w", what, name, dlpack.ErrNull)
		case all[at].OrtValueType != ort.ONNXTypeTensor || heldAs(all[at].DataType) == nil:
			return nil, fmt.Errorf("%s %s is not a tensor of numbers; a session of the binding can run the model: %w", what, &all[at], dlpack.ErrDType)
		}
		chosen = append(chosen, all[at])
	}
	return chosen, nil
}

// names returns the names of inputs or outputs.
func names(all []ort.InputOutputInfo) []string {
	list := make([]string, len(all))
	for i := range all {
		list[i] = all[i].Name
	}
	return list
}

// Close waits for running runs, and then ends the session. Calls after the first have no effect.
func (r *Runner) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.session == nil {
		return nil
	}
	err := r.session.Destroy()
	r.session = nil
	return err
}

// Run runs the model on the tensors in inputs, which may be read-only. It writes into the memory of the tensors in
// outputs. For every other output of the Runner it adds a tensor to outputs. If the model states the whole shape, this
// tensor has new memory of [dlpack.New]. Otherwise it is a copy, which has the flag [dlpack.IsCopied]. Each tensor must
// meet the conditions of [Value]. A tensor in outputs must not overlap an input or another output, unless the operators
// of the model allow it.
//
// Ownership: the tensors that Run adds are the caller's; the others stay the caller's, and may be closed at any time.
// Lifetime: the run uses them until it returns. Threads: any, while nobody else writes to the inputs or uses the
// outputs. On error: outputs has the same tensors as before; if the model has begun to run, their elements may have
// been written. [dlpack.ErrClosed] after Close; [dlpack.ErrNull] for a missing or unknown name; [dlpack.ErrDType] or
// [dlpack.ErrLayout] for a tensor whose type or shape differs from the model's; the errors of [Value] and [dlpack.New];
// an error of the binding.
func (r *Runner) Run(inputs, outputs map[string]*dlpack.Tensor) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.session == nil {
		return fmt.Errorf("onnxruntime: run: the runner is closed: %w", dlpack.ErrClosed)
	}
	if err := r.run(inputs, outputs); err != nil {
		return fmt.Errorf("onnxruntime: run: %w", err)
	}
	return nil
}

func (r *Runner) run(inputs, outputs map[string]*dlpack.Tensor) error {
	if err := known("input", r.inputs, inputs); err != nil {
		return err
	}
	if err := known("output", r.outputs, outputs); err != nil {
		return err
	}
	if outputs == nil {
		return fmt.Errorf("outputs is nil; pass an empty map to receive the outputs: %w", dlpack.ErrNull)
	}
	made := map[string]*dlpack.Tensor{}
	values := make([]ort.Value, len(r.inputs)+len(r.outputs))
	defer func() {
		for _, v := range values {
			// A run that fails leaves an interface with a nil pointer for an output that the binding could not copy.
			if v != nil && !reflect.ValueOf(v).IsNil() {
				v.Destroy()
			}
		}
		for _, t := range made { // empty after success
			t.Close()
		}
	}()
	for i := range r.inputs {
		info := &r.inputs[i]
		t := inputs[info.Name]
		if t == nil {
			return fmt.Errorf("input %q is missing: %w", info.Name, dlpack.ErrNull)
		}
		v, err := fit(t, info, AsInput)
		if err != nil {
			return fmt.Errorf("input %q: %w", info.Name, err)
		}
		values[i] = v
	}
	results := values[len(r.inputs):]
	for i := range r.outputs {
		info := &r.outputs[i]
		t := outputs[info.Name]
		if t == nil && !fixed(info) {
			if n := heldAs(info.DataType); !n.generic && n.carried.BitSize() != 8 {
				return fmt.Errorf("output %q has type %v and no fixed shape, so the binding cannot return it; pass a tensor for this output to Run: %w", info.Name, n.carried, dlpack.ErrDType)
			}
			continue
		}
		if t == nil {
			var err error
			if t, err = dlpack.New(heldAs(info.DataType).carried, info.Dimensions...); err != nil {
				return fmt.Errorf("output %q: %w", info.Name, err)
			}
			made[info.Name] = t
		}
		v, err := fit(t, info, 0)
		if err != nil {
			return fmt.Errorf("output %q: %w", info.Name, err)
		}
		results[i] = v
	}
	copied := make([]bool, len(results))
	for i, v := range results {
		copied[i] = v == nil
	}
	if err := r.session.Run(values[:len(r.inputs)], results); errors.Is(err, ort.ZeroShapeLengthError) {
		return fmt.Errorf("an output has no dimensions, so the binding cannot return it; pass a tensor of shape [1] for this output to Run: %w", err)
	} else if err != nil {
		return err
	}
	for i, name := range names(r.outputs) {
		if copied[i] {
			t, err := newTensor(results[i], true)
			if err != nil {
				return fmt.Errorf("output %q: %w", name, err)
			}
			made[name] = t
		}
	}
	maps.Copy(outputs, made)
	clear(made)
	return nil
}

// known returns an error for a tensor whose name the runner does not have.
func known(what string, all []ort.InputOutputInfo, tensors map[string]*dlpack.Tensor) error {
	for name := range tensors {
		if !slices.ContainsFunc(all, func(x ort.InputOutputInfo) bool { return x.Name == name }) {
			return fmt.Errorf("the runner has no %s %q; it has %s: %w", what, name, strings.Join(names(all), ", "), dlpack.ErrNull)
		}
	}
	return nil
}

// fit returns a value of t, or an error if t does not have the type and shape that the model states.
func fit(t *dlpack.Tensor, info *ort.InputOutputInfo, option Option) (ort.Value, error) {
	carried, shape := heldAs(info.DataType).carried, []int64(info.Dimensions)
	if len(shape) == 0 { // a scalar, or a shape that the model does not state
		shape = t.Shape()
	}
	if err := t.Require(carried, shape...); err != nil {
		return nil, err
	}
	v, err := newValue(t, []Option{option})
	if err != nil {
		return nil, err
	}
	return v, nil
}

// fixed reports whether the model states the whole shape.
func fixed(info *ort.InputOutputInfo) bool {
	return len(info.Dimensions) > 0 && !slices.ContainsFunc(info.Dimensions, func(n int64) bool { return n < 0 })
}

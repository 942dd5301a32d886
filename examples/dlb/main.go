// Command dlb lists, shows and checks files of tensors: safetensors, npy, npz and GGUF files, and indexes of
// safetensors files.
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/dlbridge/dlbridge/bridge/files"
	"github.com/dlbridge/dlbridge/dlpack"
)

// A report is dlb's output about a file. Its names in JSON are the same as those of python -m dlbridge.
type report struct {
	Path     string         `json:"path"`
	Format   files.Format   `json:"format"`
	Metadata map[string]any `json:"metadata"`
	Tensors  []tensor       `json:"tensors"`
	order    []string       // the keys of Metadata in the order of the file
}

// A failure replaces the report of a file that cannot be read.
type failure struct {
	Path  string `json:"path"`
	Error string `json:"error"`
}

// A tensor is a row of the table. Values and Statistics are for show.
type tensor struct {
	Name       string           `json:"name"`
	Type       string           `json:"type"`
	DType      *dlpack.DataType `json:"dtype"`
	Shape      []int64          `json:"shape"`
	Offset     int64            `json:"offset"`
	Size       int64            `json:"nbytes"`
	Aligned    bool             `json:"aligned"`
	Copied     string           `json:"copied"`
	Problem    string           `json:"problem"` // why it has no tensor
	Path       string           `json:"path"`
	Values     string           `json:"values,omitempty"`
	Statistics *statistics      `json:"statistics,omitempty"`
}

func main() {
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(arg string) bool { return arg == "--json" })
	asJSON := len(args) < len(os.Args)-1
	if len(args) < 2 || !slices.Contains([]string{"ls", "show", "check"}, args[0]) {
		fmt.Fprintln(os.Stderr, "usage: dlb ls|show|check [--json] FILE...")
		os.Exit(2)
	}
	code, command := 0, args[0]
	for _, path := range args[1:] {
		r, err := examine(command, path)
		var found any = r
		if err != nil {
			found, code = failure{path, err.Error()}, 1
		}
		switch {
		case asJSON:
			if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
				code = 1
			}
		case err != nil:
			fmt.Fprintln(os.Stderr, err)
		default:
			print(command, r)
		}
	}
	os.Exit(code)
}

// examine opens a file. Open checks the file's description of its tensors.
func examine(command, path string) (report, error) {
	r := report{Path: path, Metadata: map[string]any{}, Tensors: []tensor{}}
	open := func(path string) (*files.File, error) { return files.Open(path) }
	if strings.HasSuffix(path, ".index.json") {
		open = files.OpenSet
	}
	f, err := open(path)
	if err != nil {
		return r, err
	}
	defer f.Close()
	r.Format = f.Format()
	for _, field := range f.Metadata() {
		r.order = append(r.order, field.Key)
		r.Metadata[field.Key] = ofJSON(reflect.ValueOf(field.Value))
	}
	for _, e := range f.Entries() {
		row := tensor{Name: e.Name, Type: e.Type, Shape: append([]int64{}, e.Shape...), Offset: e.Offset, Size: e.Size,
			Aligned: e.Aligned, Copied: e.Copied, Path: e.Path}
		if e.Err != nil {
			row.Problem = e.Err.Error()
		} else {
			row.DType = &e.DType
		}
		if command == "check" || command == "show" && e.Err == nil {
			if err := row.read(f, command == "show"); err != nil {
				return r, err
			}
		}
		r.Tensors = append(r.Tensors, row)
	}
	return r, f.Verify()
}

func print(command string, r report) {
	s := "s"
	if len(r.Tensors) == 1 {
		s = ""
	}
	fmt.Printf("%s: %s, %d tensor%s\n", r.Path, r.Format, len(r.Tensors), s)
	if command == "check" {
		return
	}
	for _, key := range r.order {
		fmt.Printf("  %s = %s\n", plain(key), plain(text(r.Metadata[key], "")))
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  NAME\tTYPE\tSHAPE\tBYTES\tOFFSET\tALIGNED")
	for _, t := range r.Tensors {
		if t.Problem != "" {
			continue
		}
		aligned := map[bool]string{true: "yes", false: "no"}[t.Aligned]
		if t.Copied != "" {
			aligned = "a copy: " + t.Copied
		}
		fmt.Fprintf(w, "  %s\t%s\t%v\t%d\t%d\t%s\n", plain(t.Name), t.Type, t.Shape, t.Size, t.Offset, aligned)
	}
	w.Flush()
	for _, t := range r.Tensors {
		if t.Problem != "" {
			fmt.Printf("%s is refused: %s\n", plain(t.Name), t.Problem)
		} else if command == "show" {
			fmt.Printf("%s = %s\n", plain(t.Name), t.Values)
			if s := t.Statistics; s != nil {
				fmt.Printf("  min %.6g, max %.6g, mean %.6g, %d NaN\n", s.Min, s.Max, s.Mean, s.NaN)
			}
		}
	}
}

// ofJSON returns a value of metadata in which all numbers are valid in JSON.
func ofJSON(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Invalid:
		return nil
	case reflect.Interface:
		return ofJSON(v.Elem())
	case reflect.Float32, reflect.Float64: // a float32 has few digits, which a conversion to float64 would extend
		digits, _ := strconv.ParseFloat(strconv.FormatFloat(v.Float(), 'g', -1, v.Type().Bits()), 64)
		return number(digits)
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = ofJSON(v.Index(i))
		}
		return list
	case reflect.Map:
		object := make(map[string]any, v.Len())
		for _, key := range v.MapKeys() {
			object[key.String()] = ofJSON(v.MapIndex(key))
		}
		return object
	}
	return v.Interface()
}

// text returns a value of metadata as shown in the table. Texts in lists and objects are quoted.
func text(value any, quote string) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case string:
		return quote + v + quote
	case number:
		return fmt.Sprintf("%.6g", float64(v))
	case []any:
		parts := make([]string, len(v))
		for i, element := range v {
			parts[i] = text(element, `"`)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		parts := make([]string, 0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, text(key, `"`)+": "+text(v[key], `"`))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(value)
}

// plain returns a text of a file as one line of at most 60 characters. It escapes characters that could control a
// terminal.
func plain(text string) string {
	const most = 60
	var line strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > most {
			return line.String() + "…"
		}
		switch {
		case strconv.IsPrint(r):
			line.WriteRune(r)
		case r < 0x100 && !strings.ContainsRune("\t\n\r", r):
			fmt.Fprintf(&line, `\x%02x`, r)
		default:
			line.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return line.String()
}

// Command dlb lists, shows and checks files of tensors: safetensors, npy, npz, GGUF, and an index of safetensors.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/dlbridge/dlbridge/bridge/files"
)

// A report is what dlb says about a file.
type report struct {
	Path     string
	Error    string        `json:",omitempty"`
	Format   files.Format  `json:",omitempty"`
	Metadata []files.Field `json:",omitempty"`
	Tensors  []tensor      `json:",omitempty"`
}

// A tensor is a row of the table. Values and Statistics are for show.
type tensor struct {
	files.Entry
	Refused    string      `json:",omitempty"` // why it is no tensor
	Values     string      `json:",omitempty"`
	Statistics *statistics `json:",omitempty"`
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
		if err != nil {
			r.Error, code = err.Error(), 1
		}
		if asJSON {
			if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
				code = 1
			}
		} else {
			print(command, r)
		}
	}
	os.Exit(code)
}

// examine opens a file, which checks all that it says about its tensors.
func examine(command, path string) (report, error) {
	r := report{Path: path}
	open := func(path string) (*files.File, error) { return files.Open(path) }
	if strings.HasSuffix(path, ".index.json") {
		open = files.OpenSet
	}
	f, err := open(path)
	if err != nil {
		return r, err
	}
	defer f.Close()
	r.Format, r.Metadata = f.Format(), f.Metadata()
	for _, e := range f.Entries() {
		row := tensor{Entry: e}
		if e.Err != nil {
			row.Refused = e.Err.Error()
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
	if r.Error != "" {
		fmt.Fprintln(os.Stderr, r.Error)
		return
	}
	s := "s"
	if len(r.Tensors) == 1 {
		s = ""
	}
	fmt.Printf("%s: %s, %d tensor%s\n", r.Path, r.Format, len(r.Tensors), s)
	if command == "check" {
		return
	}
	for _, field := range r.Metadata {
		fmt.Printf("  %s = %s\n", plain(field.Key), plain(fmt.Sprint(field.Value)))
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  NAME\tTYPE\tSHAPE\tBYTES\tOFFSET\tALIGNED")
	for _, t := range r.Tensors {
		if t.Refused != "" {
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
		if t.Refused != "" {
			fmt.Printf("%s is refused: %s\n", plain(t.Name), t.Refused)
		} else if command == "show" {
			fmt.Printf("%s = %s\n", plain(t.Name), t.Values)
			if s := t.Statistics; s != nil {
				fmt.Printf("  min %v, max %v, mean %v, %d NaN\n", s.Min, s.Max, s.Mean, s.NaN)
			}
		}
	}
}

// plain returns a text of a file as one line of at most 60 characters, without characters that control a terminal.
func plain(text string) string {
	const most = 60
	end := ""
	if len(text) > most {
		text, end = text[:most], "…"
	}
	if quoted := strconv.Quote(text); quoted != `"`+text+`"` {
		text = quoted
	}
	return text + end
}

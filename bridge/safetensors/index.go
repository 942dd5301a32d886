package safetensors

import (
	"bytes"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/payload"
	"github.com/dlbridge/dlbridge/tens/strictjson"
)

// An Index says which file of a set has which tensor.
type Index struct {
	// Metadata is the JSON text of the metadata, an object, or nil if there is none.
	Metadata []byte
	// Files maps each name of a tensor to the name of its file. A file lies beside the index or in a folder there: its
	// name is a relative path with forward slashes, without "." and "..".
	Files map[string]string
}

// DecodeIndex decodes an index, such as model.safetensors.index.json.
//
// Errors: an [*elements.Error] with the byte of the text and [elements.ErrHeader], [elements.ErrDuplicate], or [elements.ErrName] for the name of a file that does not lie
// beside the index.
func DecodeIndex(text []byte) (*Index, error) {
	r := &reader{Scanner: strictjson.Scanner{Data: text}}
	var x Index
	r.Document(func() {
		r.Once(0)
		switch string(r.Name) {
		case "metadata":
			if r.begins('{', "an object") {
				x.Metadata = bytes.Clone(r.Raw())
			}
		case "weight_map":
			x.Files = map[string]string{}
			r.texts(x.Files, func(name string) string {
				if !payload.IsRelativePath(name) {
					return "is not the name of a file beside the index"
				}
				return ""
			})
		default:
			r.Value()
		}
	})
	if r.Err == nil && x.Files == nil {
		r.fail(0, elements.ErrHeader, "the index has no weight_map")
	}
	if r.Err != nil {
		return nil, r.err()
	}
	return &x, nil
}

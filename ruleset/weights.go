package ruleset

import (
	"bytes"
	"encoding/json"
)

// SetDefaults sets both weights before a configuration is read into w, because 0
// is a valid weight.
func (w *Weights) SetDefaults() { *w = Weights{PV: 1, UV: 2} }

// UnmarshalJSON implements [json.Unmarshaler]. It refuses unknown keys.
func (w *Weights) UnmarshalJSON(data []byte) error {
	type plain Weights // without this method
	w.SetDefaults()
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode((*plain)(w))
}

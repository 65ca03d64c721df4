package configfile

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// decoder fills Go values from nodes and continues after a mistake.
type decoder struct{ problems []*Problem }

func (d *decoder) addf(at Place, path, format string, args ...any) {
	d.problems = append(d.problems, problem(at, path, fmt.Sprintf(format, args...)))
}

func (d *decoder) decodeInto(n *Node, path string, into any) {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		panic(fmt.Sprintf("configfile: Decode into a %T: want a pointer", into))
	}
	d.decode(n, path, v.Elem())
}

// decode fills v, which is settable. Null leaves v as it is.
func (d *decoder) decode(n *Node, path string, v reflect.Value) {
	if v.Kind() == reflect.Pointer {
		if n.kind == null {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if def, ok := v.Addr().Interface().(interface{ SetDefaults() }); ok {
		def.SetDefaults()
	}
	if n.kind == null {
		return
	}
	if t, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		// Pass on a bare number too: the type explains best why it needs a unit.
		if n.kind != text && n.kind != number && n.kind != word {
			d.addf(n.Place, path, "want a string, not %v", n.kind)
		} else if err := t.UnmarshalText([]byte(n.scalar)); err != nil {
			if _, ok := t.(*time.Time); ok { // whose own error shows Go's layout
				err = fmt.Errorf("%.80q is not a time such as 2026-11-20T09:30:00Z or 2026-11-20T10:30:00+01:00", n.scalar)
			}
			d.addf(n.Place, path, "%v", err)
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.decodeStruct(n, path, v)
	case reflect.Slice:
		if !d.want(n, path, list) {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(n.items), len(n.items)))
		for i, item := range n.items {
			d.decode(item, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case reflect.Map:
		if !d.want(n, path, table) {
			return
		}
		v.Set(reflect.MakeMapWithSize(v.Type(), len(n.entries)))
		for _, e := range n.entries {
			value := reflect.New(v.Type().Elem()).Elem()
			before := len(d.problems)
			d.decode(e.value, joinPath(path, e.key), value)
			if len(d.problems) > before {
				continue // a zero would be a mistake of its own
			}
			v.SetMapIndex(reflect.ValueOf(e.key).Convert(v.Type().Key()), value)
		}
	default:
		d.decodeScalar(n, path, v)
	}
}

func (d *decoder) want(n *Node, path string, k kind) bool {
	if n.kind == k || n.kind == word && (k == text || k == number) {
		return true
	}
	hint := ""
	if k == text && (n.kind == number || n.kind == boolean) {
		hint = ": put it in quotes"
	}
	d.addf(n.Place, path, "want %v, not %v%s", k, n.kind, hint)
	return false
}

func (d *decoder) decodeScalar(n *Node, path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if d.want(n, path, text) {
			v.SetString(n.scalar)
		}
	case reflect.Bool:
		if d.want(n, path, boolean) {
			v.SetBool(n.scalar == "true")
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if !d.want(n, path, number) {
			return
		}
		i, err := strconv.ParseInt(n.scalar, 10, v.Type().Bits())
		if err != nil {
			d.notANumber(n, path, "a whole number", v, err)
			return
		}
		v.SetInt(i)
	case reflect.Float32, reflect.Float64:
		if !d.want(n, path, number) {
			return
		}
		f, err := strconv.ParseFloat(n.scalar, v.Type().Bits())
		if err != nil {
			d.notANumber(n, path, "a number", v, err)
			return
		}
		v.SetFloat(f)
	default:
		panic(fmt.Sprintf("configfile: no configuration can be read into a %v (at %s)", v.Type(), path))
	}
}

func (d *decoder) notANumber(n *Node, path, want string, v reflect.Value, err error) {
	if errors.Is(err, strconv.ErrRange) {
		want = fmt.Sprintf("%s of %d bits", want, v.Type().Bits())
	}
	shown := n.scalar
	if n.kind == word {
		shown = strconv.Quote(shown)
	}
	d.addf(n.Place, path, "%.80s is not %s", shown, want)
}

func (d *decoder) decodeStruct(n *Node, path string, v reflect.Value) {
	if !d.want(n, path, table) {
		return
	}
	fields := make(map[string]reflect.Value)
	collectFields(v, fields)
	for _, e := range n.entries {
		field, ok := fields[e.key]
		if !ok {
			known := make([]string, 0, len(fields))
			for name := range fields {
				known = append(known, name)
			}
			slices.Sort(known)
			d.addf(e.Place, joinPath(path, e.key),
				"unknown key; known here are %s", strings.Join(known, ", "))
			continue
		}
		d.decode(e.value, joinPath(path, e.key), field)
	}
}

// collectFields finds the fields of a struct by their json names, including those
// of embedded structs.
func collectFields(v reflect.Value, fields map[string]reflect.Value) {
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			collectFields(v.Field(i), fields)
		case f.IsExported() && name != "" && name != "-":
			fields[name] = v.Field(i)
		}
	}
}

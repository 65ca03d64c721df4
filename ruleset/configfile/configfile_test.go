package configfile

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

type celsius float64

func (c *celsius) UnmarshalText(text []byte) error {
	if _, err := fmt.Sscanf(string(text), "%f°C", (*float64)(c)); err != nil {
		return errors.New("want degrees, such as 20°C")
	}
	return nil
}

type room struct {
	Name    string         `json:"name"`
	Windows int8           `json:"windows,omitempty"`
	Heated  bool           `json:"heated"`
	Target  celsius        `json:"target"`
	Size    *size          `json:"size"`
	Seats   map[string]int `json:"seats"`
	Tags    []string       `json:"tags"`
	Hidden  string         `json:"-"`
	private string
}

type size struct {
	Width float64 `json:"width"`
}

func (s *size) SetDefaults() { s.Width = 3 }

type house struct {
	Address
	Rooms []*room `json:"rooms"`
}

type Address struct {
	Street string `json:"street"`
}

func TestDecode(t *testing.T) {
	t.Parallel()
	const asYAML = `street: "1 Main St"
rooms:
  - &kitchen
    name: kitchen
    windows: 2
    heated: true
    target: 20.5°C
    seats: {stool: 0x10, chair: 1_000}
    tags: [a, 'b', "c\n"]
  - <<: *kitchen
    name: |
      second
      kitchen
    windows: -1
    size:
  - name: hall
    size: {}
`
	const asJSON = `{"street":"1 Main St","rooms":[
{"name":"kitchen","windows":2,"heated":true,"target":"20.5°C","seats":{"stool":16,"chair":1000},"tags":["a","b","c\n"]},
{"name":"second\nkitchen\n","windows":-1,"size":null,"heated":true,"target":"20.5°C","seats":{"stool":16,"chair":1000},"tags":["a","b","c\n"]},
{"name":"hall","size":{}}]}`
	for spelling, parse := range map[string]func() (*Node, error){
		"YAML": func() (*Node, error) { return ParseYAML("f", []byte(asYAML)) },
		"JSON": func() (*Node, error) { return ParseYAML("f", []byte(asJSON)) },
	} {
		doc, err := parse()
		if err != nil {
			t.Errorf("%s: %v", spelling, err)
			continue
		}
		var h house
		if err := doc.Decode("", &h, nil); err != nil {
			t.Errorf("%s: %v", spelling, err)
			continue
		}
		if h.Street != "1 Main St" || len(h.Rooms) != 3 {
			t.Fatalf("%s: %+v", spelling, h)
		}
		for i, want := range []string{
			"{kitchen 2 true 20.5 <nil> map[chair:1000 stool:16] [a b c\n]  }",
			"{second\nkitchen\n -1 true 20.5 <nil> map[chair:1000 stool:16] [a b c\n]  }",
			"{hall 0 false 0 size map[] []  }",
		} {
			got := *h.Rooms[i]
			text := fmt.Sprintf("%v", got)
			if got.Size != nil {
				text = strings.Replace(text, fmt.Sprintf("%p", got.Size), "size", 1)
				if *got.Size != (size{Width: 3}) {
					t.Errorf("%s: defaults %+v", spelling, *got.Size)
				}
			}
			if text != want {
				t.Errorf("%s: room %d is %s, want %s", spelling, i, text, want)
			}
		}
		var one room
		if err := doc.Decode("rooms[2]", &one, nil); err != nil || one.Name != "hall" {
			t.Errorf("%s: rooms[2]: %+v, %v", spelling, one, err)
		}
		if err := doc.Decode("rooms[3]", &one, nil); err == nil || !strings.Contains(err.Error(), "rooms[3]: missing") {
			t.Errorf("%s: rooms[3]: %v", spelling, err)
		}
	}
}

func TestDecodeProblems(t *testing.T) {
	t.Parallel()
	doc, err := ParseYAML("f.yaml", []byte(`rooms:
  - name: 5
    windows: 300
    heated: yes
    target: warm
    size: 3
    Hidden: x
    private: x
    seats: {a: 1.5}
    tags: [[]]
  - windows: 1.5
    target: [1]
`))
	if err != nil {
		t.Fatal(err)
	}
	var h house
	err = doc.Decode("", &h, func() error {
		return errors.Join(
			&Problem{Path: "rooms[0].windows", Message: "is reported already"},
			&Problem{Path: "rooms[1].name", Message: "is empty"},
			&Problem{Path: "street", Message: "is empty"},
			errors.New("of no place"),
		)
	})
	want := `f.yaml:1:1: street: is empty
f.yaml:1:1: of no place
f.yaml:2:11: rooms[0].name: want a string, not a number: put it in quotes
f.yaml:3:14: rooms[0].windows: 300 is not a whole number of 8 bits
f.yaml:4:13: rooms[0].heated: want a boolean, not a string
f.yaml:5:13: rooms[0].target: want degrees, such as 20°C
f.yaml:6:11: rooms[0].size: want a table of keys, not a number
f.yaml:7:5: rooms[0].Hidden: unknown key; known here are heated, name, seats, size, tags, target, windows
f.yaml:8:5: rooms[0].private: unknown key; known here are heated, name, seats, size, tags, target, windows
f.yaml:9:16: rooms[0].seats.a: 1.5 is not a whole number
f.yaml:10:12: rooms[0].tags[0]: want a string, not a list
f.yaml:11:5: rooms[1].name: is empty
f.yaml:11:14: rooms[1].windows: 1.5 is not a whole number
f.yaml:12:13: rooms[1].target: want a string, not a list`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	_ = h.Rooms[0].private
}

func TestHostileDocuments(t *testing.T) {
	t.Parallel()
	var laughs strings.Builder
	laughs.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 9; i++ {
		fmt.Fprintf(&laughs, "a%d: &a%d [%s]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10))
	}
	for name, text := range map[string]string{
		"a billion laughs": laughs.String(),
		"an endless alias": "a: &a [*a]",
		"deep nesting":     strings.Repeat("[", 1000) + strings.Repeat("]", 1000),
		"too large":        strings.Repeat("# x\n", MaxBytes/4+1),
	} {
		if _, err := ParseYAML("f", []byte(text)); err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	if Problems(nil) != nil || Under("x", nil) != nil {
		t.Error("no error has problems")
	}
	inner := errors.Join(&Problem{Path: "a", Message: "one"}, fmt.Errorf("reading: %w", &Problem{Message: "two"}), errors.New("three"))
	err := Under("rules", errors.Join(inner, &Problem{Path: "[4]", Message: "four"}))
	if got, want := err.Error(), "rules.a: one\nrules: two\nrules: three\nrules[4]: four"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := (&Problem{Place: Place{Line: 3, Column: 7}, Message: "m"}).Error(); got != "3:7: m" {
		t.Error(got)
	}
}

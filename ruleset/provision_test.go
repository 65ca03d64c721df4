package ruleset

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hotboard/hotboard/ruleset/configfile"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	l := provisioned(t, &List{Name: "articles", Pages: []string{"/a/{id}"}}).Lists[0]
	want := List{
		Name: "articles", Pages: []string{"/a/{id}"},
		Statuses:        []int{200, 304},
		ContentTypes:    []string{"text/html", "application/xhtml+xml"},
		PublishedHeader: "Hotboard-Published",
		Dedup:           Duration(10 * time.Minute),
		Zone:            "UTC",
		Weights:         &Weights{PV: 1, UV: 2},
		Score:           Score{Model: Gravity, Base: 2, Gamma: 1.5},
		Boards:          []Period{Hour, Day, Week, Month, All},
		Keep:            map[Period]int{Hour: 48, Day: 35, Week: 10, Month: 13},
	}
	if got, want := toJSON(t, l), toJSON(t, &want); got != want {
		t.Errorf("defaults:\n%s\nwant\n%s", got, want)
	}
	if l.Location() != time.UTC {
		t.Errorf("zone %v", l.Location())
	}
	for model, want := range map[Model]Score{
		Accumulate: {Model: Accumulate, Base: 2, Gamma: 1.5},
		HalfLife:   {Model: HalfLife, HalfLife: Duration(24 * time.Hour)},
		Count:      {Model: Count},
	} {
		l := provisioned(t, &List{Name: "a", Score: Score{Model: model}}).Lists[0]
		if l.Score != want {
			t.Errorf("%s: %+v, want %+v", model, l.Score, want)
		}
	}
	if l := provisioned(t, &List{Name: "a", Boards: []Period{All, Day}}).Lists[0]; !reflect.DeepEqual(l.Boards, []Period{Day, All}) || len(l.Keep) != 1 || l.Keep[Day] != 35 {
		t.Errorf("boards %v, keep %v", l.Boards, l.Keep)
	}
}

func toJSON(t testing.TB, v any) string {
	t.Helper()
	out, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// A ruleset does not change when it is provisioned again, or written as JSON and
// read again.
func TestProvisionIsIdempotent(t *testing.T) {
	t.Parallel()
	r := provisioned(t,
		&List{Name: "a", Pages: []string{"/a/{id}"}, Zone: "Europe/Berlin", ContentTypes: []string{"Text/Plain", "*"}, PublishedHeader: "x-p"},
		&List{Name: "b", Score: Score{Model: HalfLife}, Boards: []Period{All, Hour}, Keep: map[Period]int{Hour: 5}, Weights: &Weights{PV: 0, UV: 3}},
	)
	first := toJSON(t, r)
	if err := r.Provision(); err != nil {
		t.Fatal(err)
	}
	if got := toJSON(t, r); got != first {
		t.Errorf("after the second time:\n%s\nwant\n%s", got, first)
	}
	if n := len(r.Match(nil, "/a/x")); n != 1 {
		t.Errorf("%d targets after the second time", n)
	}
	again, err := ParseJSON([]byte(first))
	if err != nil {
		t.Fatal(err)
	}
	if got := toJSON(t, again); got != first {
		t.Errorf("read again:\n%s\nwant\n%s", got, first)
	}
}

func TestProvisionProblems(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		list List // Name "a" unless set
		want string
	}{
		{"no name", List{Name: "-", Zone: "x"}, `lists[0].zone: "x" is not an IANA time zone`},
		{"capital", List{Name: "Articles"}, `lists[0].name: invalid name "Articles"`},
		{"long name", List{Name: strings.Repeat("a", 65)}, "lists[0].name"},
		{"dot in name", List{Name: "a.b"}, "lists[0].name"},
		{"bad pattern", List{Pages: []string{"/ok/{id}", "articles/{id}"}}, `lists[0].pages[1]: pattern "articles/{id}": must begin with "/"`},
		{"pattern without a part", List{Pages: []string{"/about"}}, "lists[0].pages[0]"},
		{"same pattern", List{Pages: []string{"/a/{id}", "/a/{slug}/"}}, `lists[0].pages[1]: pattern "/a/{slug}/" matches the same paths as "/a/{id}"`},
		{"no placeholder", List{ID: "id"}, `lists[0].id: "id" is not a placeholder`},
		{"empty placeholder", List{ID: "{}"}, "lists[0].id"},
		{"status", List{Statuses: []int{200, 99}}, "lists[0].statuses[1]: 99 is not a status: 100 to 599"},
		{"status over", List{Statuses: []int{600}}, "lists[0].statuses[0]"},
		{"status twice", List{Statuses: []int{200, 200}}, "lists[0].statuses[1]: duplicate 200"},
		{"media type", List{ContentTypes: []string{"html"}}, `lists[0].content_types[0]: "html" is not a media type`},
		{"media range", List{ContentTypes: []string{"text/*"}}, "lists[0].content_types[0]"},
		{"media type with parameters", List{ContentTypes: []string{"text/html; charset=utf-8"}}, "leave out the parameters"},
		{"media type twice", List{ContentTypes: []string{"text/html", "Text/HTML"}}, "duplicate"},
		{"header", List{PublishedHeader: "X Published"}, "lists[0].published_header"},
		{"dedup below", List{Dedup: -1}, "lists[0].dedup: -1ns is not between 1ms and 24h"},
		{"dedup under a millisecond", List{Dedup: 1000}, "lists[0].dedup"},
		{"dedup above", List{Dedup: Duration(24*time.Hour + 1)}, "lists[0].dedup"},
		{"zone of the machine", List{Zone: "Local"}, "lists[0].zone"},
		{"negative weight", List{Weights: &Weights{PV: -1, UV: 1}}, "lists[0].weights.pv: -1 is not a number from 0 to 1e+09"},
		{"infinite weight", List{Weights: &Weights{PV: 1, UV: math.Inf(1)}}, "lists[0].weights.uv"},
		{"weight that is no number", List{Weights: &Weights{PV: math.NaN(), UV: 1}}, "lists[0].weights.pv"},
		{"no weight", List{Weights: &Weights{}}, "lists[0].weights: pv and uv are both 0"},
		{"model", List{Score: Score{Model: "magic"}}, `lists[0].score.model: "magic" is not one of gravity`},
		{"weight too large", List{Weights: &Weights{PV: 1e10}}, "lists[0].weights.pv"},
		{"base too small", List{Score: Score{Base: 1e-9}}, "lists[0].score.base"},
		{"base", List{Score: Score{Base: -1}}, "lists[0].score.base: -1 is not between 0.01 and 8760"},
		{"base above", List{Score: Score{Base: 1e6}}, "lists[0].score.base"},
		{"gamma", List{Score: Score{Gamma: 11}}, "lists[0].score.gamma: 11 is not between 0.01 and 10"},
		{"gamma that is no number", List{Score: Score{Gamma: math.NaN()}}, "lists[0].score.gamma"},
		{"gamma for halflife", List{Score: Score{Model: HalfLife, Gamma: 1}}, "lists[0].score.gamma: model halflife does not use it"},
		{"half life for gravity", List{Score: Score{HalfLife: Duration(time.Hour)}}, "lists[0].score.half_life: model gravity does not use it"},
		{"half life below", List{Score: Score{Model: HalfLife, HalfLife: Duration(time.Second)}}, "lists[0].score.half_life: 1s is not between 1m and 3650d"},
		{"min views", List{Score: Score{MinViews: -1}}, "lists[0].score.min_views"},
		{"damping", List{Score: Score{Damping: "ln"}}, `lists[0].score.damping: "ln" is not "log"`},
		{"damping for count", List{Score: Score{Model: Count, Damping: "log"}}, "lists[0].score.damping: model count"},
		{"board", List{Boards: []Period{Day, "year"}}, `lists[0].boards[1]: "year" is not one of hour`},
		{"board twice", List{Boards: []Period{Day, Day}}, "lists[0].boards[1]: duplicate day"},
		{"no boards", List{Boards: []Period{}}, "lists[0].boards: empty: name at least one board"},
		{"keep all", List{Keep: map[Period]int{All: 1}}, "lists[0].keep.all"},
		{"keep unknown", List{Keep: map[Period]int{"year": 1}}, "lists[0].keep.year"},
		{"keep none", List{Keep: map[Period]int{Day: 0}}, "lists[0].keep.day: 0 is not between 1 and 10000"},
		{"keep too many", List{Keep: map[Period]int{Day: 10001}}, "lists[0].keep.day"},
		{"keep what is no board", List{Boards: []Period{Day}, Keep: map[Period]int{Week: 3}}, "lists[0].keep.week: boards does not include week"},
	}
	for i := range tests {
		tt := &tests[i]
		if tt.list.Name == "" {
			tt.list.Name = "a"
		}
		err := (&Ruleset{Lists: []*List{&tt.list}}).Provision()
		problems := configfile.Problems(err)
		if len(problems) != 1 || !strings.Contains(problems[0].Error(), tt.want) {
			t.Errorf("%s: %v; want one problem with %q", tt.name, err, tt.want)
		}
	}

	err := (&Ruleset{Lists: []*List{{Name: "a"}, nil, {Name: "a"}}}).Provision()
	if got, want := err.Error(), "lists[1]: empty: a list needs a name\nlists[2].name: duplicate name \"a\": lists[0] has it"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if err := new(Ruleset).Provision(); err != nil {
		t.Errorf("a ruleset without lists: %v", err)
	}
}

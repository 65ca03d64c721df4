package ruleset

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hotboard/hotboard/ruleset/calendar"
	"github.com/hotboard/hotboard/ruleset/configfile"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	l := compiled(t, &ListConfig{Name: "articles", Pages: []string{"/a/{id}"}}).Lists[0]
	want := ListConfig{
		Name: "articles", Pages: []string{"/a/{id}"},
		Statuses:        []int{200, 304},
		ContentTypes:    []string{"text/html", "application/xhtml+xml"},
		PublishedHeader: "Hotboard-Published",
		Dedup:           Duration(10 * time.Minute),
		Zone:            "UTC",
		Weights:         &Weights{PV: 1, UV: 2},
		Score:           Score{Model: Gravity, Base: 2, Gamma: 1.5},
		Boards:          []calendar.Period{calendar.Hour, calendar.Day, calendar.Week, calendar.Month, calendar.All},
		Keep:            map[calendar.Period]int{calendar.Hour: 48, calendar.Day: 35, calendar.Week: 10, calendar.Month: 13},
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
		l := compiled(t, &ListConfig{Name: "a", Score: Score{Model: model}}).Lists[0]
		if l.Score != want {
			t.Errorf("%s: %+v, want %+v", model, l.Score, want)
		}
	}
	if l := compiled(t, &ListConfig{Name: "a", Boards: []calendar.Period{calendar.All, calendar.Day}}).Lists[0]; !reflect.DeepEqual(l.Boards, []calendar.Period{calendar.Day, calendar.All}) || len(l.Keep) != 1 || l.Keep[calendar.Day] != 35 {
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

func TestCompileProblems(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		list ListConfig // Name "a" unless set
		want string
	}{
		{"no name", ListConfig{Name: "-", Zone: "x"}, `lists[0].zone: "x" is not an IANA time zone`},
		{"capital", ListConfig{Name: "Articles"}, `lists[0].name: invalid name "Articles"`},
		{"long name", ListConfig{Name: strings.Repeat("a", 65)}, "lists[0].name"},
		{"dot in name", ListConfig{Name: "a.b"}, "lists[0].name"},
		{"bad pattern", ListConfig{Pages: []string{"/ok/{id}", "articles/{id}"}}, `lists[0].pages[1]: pattern "articles/{id}": must begin with "/"`},
		{"pattern without a part", ListConfig{Pages: []string{"/about"}}, "lists[0].pages[0]"},
		{"same pattern", ListConfig{Pages: []string{"/a/{id}", "/a/{slug}/"}}, `lists[0].pages[1]: pattern "/a/{slug}/" matches the same paths as "/a/{id}"`},
		{"no placeholder", ListConfig{ID: "id"}, `lists[0].id: "id" is not a placeholder`},
		{"empty placeholder", ListConfig{ID: "{}"}, "lists[0].id"},
		{"status", ListConfig{Statuses: []int{200, 99}}, "lists[0].statuses[1]: 99 is not a status: 100 to 599"},
		{"status over", ListConfig{Statuses: []int{600}}, "lists[0].statuses[0]"},
		{"status twice", ListConfig{Statuses: []int{200, 200}}, "lists[0].statuses[1]: duplicate 200"},
		{"media type", ListConfig{ContentTypes: []string{"html"}}, `lists[0].content_types[0]: "html" is not a media type`},
		{"media range", ListConfig{ContentTypes: []string{"text/*"}}, "lists[0].content_types[0]"},
		{"media type with parameters", ListConfig{ContentTypes: []string{"text/html; charset=utf-8"}}, "leave out the parameters"},
		{"media type twice", ListConfig{ContentTypes: []string{"text/html", "Text/HTML"}}, "duplicate"},
		{"header", ListConfig{PublishedHeader: "X Published"}, "lists[0].published_header"},
		{"dedup below", ListConfig{Dedup: -1}, "lists[0].dedup: -1ns is not between 1ms and 24h"},
		{"dedup under a millisecond", ListConfig{Dedup: 1000}, "lists[0].dedup"},
		{"dedup above", ListConfig{Dedup: Duration(24*time.Hour + 1)}, "lists[0].dedup"},
		{"zone of the machine", ListConfig{Zone: "Local"}, "lists[0].zone"},
		{"negative weight", ListConfig{Weights: &Weights{PV: -1, UV: 1}}, "lists[0].weights.pv: -1 is not a number from 0 to 1e+09"},
		{"infinite weight", ListConfig{Weights: &Weights{PV: 1, UV: math.Inf(1)}}, "lists[0].weights.uv"},
		{"weight that is no number", ListConfig{Weights: &Weights{PV: math.NaN(), UV: 1}}, "lists[0].weights.pv"},
		{"no weight", ListConfig{Weights: &Weights{}}, "lists[0].weights: pv and uv are both 0"},
		{"model", ListConfig{Score: Score{Model: "magic"}}, `lists[0].score.model: "magic" is not one of gravity`},
		{"weight too large", ListConfig{Weights: &Weights{PV: 1e10}}, "lists[0].weights.pv"},
		{"base too small", ListConfig{Score: Score{Base: 1e-9}}, "lists[0].score.base"},
		{"base", ListConfig{Score: Score{Base: -1}}, "lists[0].score.base: -1 is not between 0.01 and 8760"},
		{"base above", ListConfig{Score: Score{Base: 1e6}}, "lists[0].score.base"},
		{"gamma", ListConfig{Score: Score{Gamma: 11}}, "lists[0].score.gamma: 11 is not between 0.01 and 10"},
		{"gamma that is no number", ListConfig{Score: Score{Gamma: math.NaN()}}, "lists[0].score.gamma"},
		{"gamma for halflife", ListConfig{Score: Score{Model: HalfLife, Gamma: 1}}, "lists[0].score.gamma: model halflife does not use it"},
		{"half life for gravity", ListConfig{Score: Score{HalfLife: Duration(time.Hour)}}, "lists[0].score.half_life: model gravity does not use it"},
		{"half life below", ListConfig{Score: Score{Model: HalfLife, HalfLife: Duration(time.Second)}}, "lists[0].score.half_life: 1s is not between 1m and 3650d"},
		{"min views", ListConfig{Score: Score{MinViews: -1}}, "lists[0].score.min_views"},
		{"damping", ListConfig{Score: Score{Damping: "ln"}}, `lists[0].score.damping: "ln" is not "log"`},
		{"damping for count", ListConfig{Score: Score{Model: Count, Damping: "log"}}, "lists[0].score.damping: model count"},
		{"board", ListConfig{Boards: []calendar.Period{calendar.Day, "year"}}, `lists[0].boards[1]: "year" is not one of hour`},
		{"board twice", ListConfig{Boards: []calendar.Period{calendar.Day, calendar.Day}}, "lists[0].boards[1]: duplicate day"},
		{"no boards", ListConfig{Boards: []calendar.Period{}}, "lists[0].boards: empty: name at least one board"},
		{"keep all", ListConfig{Keep: map[calendar.Period]int{calendar.All: 1}}, "lists[0].keep.all"},
		{"keep unknown", ListConfig{Keep: map[calendar.Period]int{"year": 1}}, "lists[0].keep.year"},
		{"keep none", ListConfig{Keep: map[calendar.Period]int{calendar.Day: 0}}, "lists[0].keep.day: 0 is not between 1 and 10000"},
		{"keep too many", ListConfig{Keep: map[calendar.Period]int{calendar.Day: 10001}}, "lists[0].keep.day"},
		{"keep what is no board", ListConfig{Boards: []calendar.Period{calendar.Day}, Keep: map[calendar.Period]int{calendar.Week: 3}}, "lists[0].keep.week: boards does not include week"},
	}
	for i := range tests {
		tt := &tests[i]
		if tt.list.Name == "" {
			tt.list.Name = "a"
		}
		_, err := Compile(Config{Lists: []*ListConfig{&tt.list}})
		problems := configfile.Problems(err)
		if len(problems) != 1 || !strings.Contains(problems[0].Error(), tt.want) {
			t.Errorf("%s: %v; want one problem with %q", tt.name, err, tt.want)
		}
	}

	_, err := Compile(Config{Lists: []*ListConfig{{Name: "a"}, nil, {Name: "a"}}})
	if got, want := err.Error(), "lists[1]: empty: a list needs a name\nlists[2].name: duplicate name \"a\": lists[0] has it"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if _, err := Compile(Config{}); err != nil {
		t.Errorf("rules without lists: %v", err)
	}
}

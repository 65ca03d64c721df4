package redisstore

import (
	"math"
	"strings"
	"testing"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

func TestKeysOfSetsDiffer(t *testing.T) {
	t.Parallel()
	k := newKeys("hotboard", 7)
	if got, want := k.score(store.Set{List: "articles", Name: "day:20261120T000000Z"}), "hotboard:{s7}:score:articles:day:20261120T000000Z"; got != want {
		t.Errorf("key %s, want %s", got, want)
	}
	if got, want := k.memos(bucketID{"articles", calendar.Month, 1795132800, 255}), "hotboard:{s7}:month:articles:1795132800:255"; got != want {
		t.Errorf("key %s, want %s", got, want)
	}
	seen := map[string]store.Set{}
	for _, set := range []store.Set{
		{List: "a:b", Name: "c"}, {List: "a", Name: "b:c"}, {List: "a%3Ab", Name: "c"}, {List: "a%b", Name: "c"}, {List: "a%25b", Name: "c"}, {List: "a:b:c", Name: ""},
	} {
		if other, ok := seen[k.score(set)]; ok {
			t.Errorf("%+v and %+v share the key %s", set, other, k.score(set))
		}
		seen[k.score(set)] = set
		if got := parseSet(setName(set)); got != set {
			t.Errorf("%+v is read back as %+v", set, got)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(string(packItem(nil, &store.Item{First: 1, Last: math.MaxInt64, Published: math.MinInt64, PublishedFrom: hit.FromOrigin, Duplicates: -1})))
	f.Add(string(packTotals(nil, &store.Totals{Views: 1, Uniques: -1, Newest: math.MinInt64, Landmark: math.MaxInt64})))
	f.Add("")
	f.Add("\x02")
	f.Add("\x01" + strings.Repeat("\xff", 11))
	f.Fuzz(func(t *testing.T, s string) {
		var i store.Item
		if unpackItem(s, &i) == nil {
			var again store.Item
			if err := unpackItem(string(packItem(nil, &i)), &again); err != nil || again != i {
				t.Errorf("%+v came back as %+v, %v", i, again, err)
			}
		}
		var sum store.Totals
		if unpackTotals(s, &sum) == nil {
			var again store.Totals
			if err := unpackTotals(string(packTotals(nil, &sum)), &again); err != nil || again != sum {
				t.Errorf("%+v came back as %+v, %v", sum, again, err)
			}
		}
	})
}

func TestUnpackRefusesDamage(t *testing.T) {
	t.Parallel()
	good := string(packItem(nil, &store.Item{First: 1, Last: 300, Published: 5, Duplicates: 7}))
	for _, bad := range []string{"", "\x02" + good[1:], good[:len(good)-1], good + "\x00", "\x01"} {
		if unpackItem(bad, new(store.Item)) == nil {
			t.Errorf("%q was read as an item", bad)
		}
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"6.2.0": true, "6.2": true, "7.0.15": true, "10.0.0": true, "6.0.16": false, "5.0.7": false, "unstable": true, "255.255.255": true,
	} {
		if got := atLeast(version, 6, 2); got != want {
			t.Errorf("version %s: %v, want %v", version, got, want)
		}
	}
}

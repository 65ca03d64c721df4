package redisstore

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
)

func TestKeysOfSetsDiffer(t *testing.T) {
	t.Parallel()
	k := newKeys("hotboard", 7)
	if got, want := k.score(store.Set{List: "articles", Name: "day:20261120T000000Z"}), "hotboard:{s7}:score:articles:day:20261120T000000Z"; got != want {
		t.Errorf("key %s, want %s", got, want)
	}
	if got, want := k.memos(bucketID{"articles", store.Month, 1795132800, 1023}), "hotboard:{s7}:month:articles:1795132800:1023"; got != want {
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

// TestBuckets checks the spread of keys that bucketOf promises: every bucket is
// used, and the last about twice as much as the first.
func TestBuckets(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	for name, key := range map[string]func(int) uint64{
		"hashes":  func(int) uint64 { return r.Uint64() },
		"numbers": func(i int) uint64 { return uint64(i) },
	} {
		var n [buckets]float64
		const mean = 1000
		for i := range buckets * mean {
			n[bucketOf(key(i), buckets)]++
		}
		for b, got := range n {
			want := mean * (1 + float64(b)/buckets) / 1.5
			if math.Abs(got-want) > 6*math.Sqrt(want) {
				t.Errorf("%s: bucket %d has %g keys, want about %g", name, b, got, want)
			}
		}
	}
	if first, last := bucketOf(0, buckets), bucketOf(math.MaxUint64, buckets); first != 0 || last < 0 || last >= buckets {
		t.Errorf("buckets of the extremes are %d and %d", first, last)
	}
}

// TestBucketsOfVotes checks that a list of votes, which has all its memos in one
// shard, has as many buckets there as a list of views has in all shards.
func TestBucketsOfVotes(t *testing.T) {
	t.Parallel()
	const shards = 16
	c := newMemoCaches(shards, 0, 0)[3]
	for kind, want := range map[hit.Kind]int{hit.View: buckets, hit.Vote: shards * buckets} {
		used := map[bucketID]bool{}
		for i := range uint64(20 * shards * buckets) {
			used[c.bucketOf(&store.Memo{List: "l", Kind: kind, Term: store.Day, Key: i})] = true
		}
		if len(used) != want {
			t.Errorf("memos of kind %d are in %d buckets, want %d", kind, len(used), want)
		}
	}
	if first, last := bucketOf(0, hit.MaxShards*buckets), bucketOf(math.MaxUint64, hit.MaxShards*buckets); first != 0 || last >= hit.MaxShards*buckets {
		t.Errorf("buckets of the extremes are %d and %d", first, last)
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

package hit_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hotboard/hotboard/hit"
)

var update = flag.Bool("update", false, "write the golden files anew")

var someRules = hit.RulesIDOf([]byte("{}"))

func sample() *hit.Batch {
	return &hit.Batch{
		Version: hit.Version, Edge: "0123456789abcdef", Shard: 7, Seq: 42, Rules: someRules,
		Hits: []hit.Hit{
			{Kind: hit.View, List: "articles", Item: "rust-in-caddy", Visitor: 0xfedcba9876543210, Time: 1_795_176_000_123},
			{Kind: hit.View, List: "articles", Item: "né à/1", Visitor: 1, Time: 1_795_176_000_124, Published: 1_795_000_000_000, PublishedFrom: hit.FromOrigin},
			{Kind: hit.View, List: "a", Item: strings.Repeat("x", hit.MaxIDBytes), Time: 1, Published: 1, PublishedFrom: hit.FromClient},
		},
	}
}

// votes is a batch with every field of a vote.
func votes() *hit.Batch {
	return &hit.Batch{
		Version: hit.Version, Edge: "0123456789abcdef", Shard: 3, Seq: 43, Rules: someRules,
		Hits: []hit.Hit{
			{Kind: hit.Vote, List: "best-band", Item: "the-knights", Visitor: 7, Time: 1_795_176_000_125},
			{Kind: hit.Vote, List: "best-band", Item: "none", Visitor: 0xfedcba9876543210, Time: 1_795_176_000_126, Channel: "radio", Confirm: 1<<64 - 1,
				Quotas: []hit.Quota{{Limit: "hourly", Window: "hour", Key: 1}, {Limit: "daily", Window: "campaign", Key: 1<<64 - 1}}},
		},
	}
}

// goldens are the files in testdata. Every later version of this package must read
// them.
func goldens() map[string]*hit.Batch {
	first := func(b *hit.Batch) *hit.Batch {
		b.Version, b.Rules = 1, hit.RulesID{}
		return b
	}
	return map[string]*hit.Batch{
		"v1-batch.cbor": first(sample()),
		"v1-votes.cbor": first(votes()),
		"v1-empty.cbor": {Version: 1, Edge: "e", Shard: 0, Seq: 1},
		"v2-batch.cbor": sample(),
		"v2-votes.cbor": votes(),
		"v2-empty.cbor": {Version: 2, Edge: "e", Shard: 0, Seq: 1},
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for name, want := range goldens() {
		path := filepath.Join("testdata", name)
		if want.Version == hit.Version && *update {
			data, err := hit.Encode(want)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		golden, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if want.Version == hit.Version {
			if data, err := hit.Encode(want); err != nil || string(data) != string(golden) {
				t.Errorf("%s: the format of version %d has changed (%v): a change needs a new version and a new file", name, hit.Version, err)
			}
		}
		if id := hit.RulesOf(golden); id != want.Rules {
			t.Errorf("%s: RulesOf returns %s, want %s", name, id, want.Rules)
		}
		got, err := hit.Decode(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*hit.Batch){
		"no edge":            func(b *hit.Batch) { b.Edge = "" },
		"an edge with a dot": func(b *hit.Batch) { b.Edge = "a.b" },
		"negative shard":     func(b *hit.Batch) { b.Shard = -1 },
		"shard too high":     func(b *hit.Batch) { b.Shard = hit.MaxShards },
		"sequence 0":         func(b *hit.Batch) { b.Seq = 0 },
		"too many hits":      func(b *hit.Batch) { b.Hits = make([]hit.Hit, hit.MaxHits+1) },
		"hits without rules": func(b *hit.Batch) { b.Rules = hit.RulesID{} },
	} {
		b := sample()
		change(b)
		if _, err := hit.Encode(b); err == nil {
			t.Errorf("%s: encoded", name)
		}
	}
}

func TestLargestBatchFits(t *testing.T) {
	t.Parallel()
	b := sample()
	b.Hits = nil
	id := strings.Repeat("é", hit.MaxIDBytes/2)
	largest := hit.Hit{
		Kind: hit.Vote, List: id, Item: id, Visitor: 1<<64 - 1, Time: 1 << 62, Published: 1 << 62, PublishedFrom: hit.FromOrigin,
		Channel: strings.Repeat("x", hit.MaxChannelBytes), Confirm: 1<<64 - 1,
	}
	for range hit.MaxQuotas {
		// A limit's name has up to 32 bytes; no window has a longer name.
		largest.Quotas = append(largest.Quotas, hit.Quota{Limit: strings.Repeat("r", 32), Window: "campaign", Key: 1<<64 - 1})
	}
	if err := largest.Valid(); err != nil {
		t.Fatal(err)
	}
	for range hit.MaxHits {
		b.Hits = append(b.Hits, largest)
	}
	data, err := hit.Encode(b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hit.Decode(data); err != nil {
		t.Error(err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	good, err := hit.Encode(sample())
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"a newer version":           strings.Replace(string(good), "\xa6\x01\x02", "\xa6\x01\x03", 1),
		"with other fields":         "\xa3\x01\x03\x02\x18\x2a\x05\x82\xa0\xc1\x00",
		"deeper and with more keys": "\xa2\x01\x03\x05" + strings.Repeat("\x81", 8) + "\xb8\x80" + strings.Repeat("\x61a\x00", 128),
	} {
		if b, err := hit.Decode([]byte(data)); !errors.Is(err, hit.ErrVersion) || b.Version != 3 {
			t.Errorf("%s: got %+v, %v", name, b, err)
		}
	}
	for name, data := range map[string]string{
		"nothing":          "",
		"cut off":          string(good[:len(good)-1]),
		"something behind": string(good) + "\x00",
		"not a map":        "\x01",
		"too large":        strings.Repeat("\x00", hit.MaxBatchBytes+1),
		"a huge array":     "\xa1\x05\x9b\xff\xff\xff\xff\xff\xff\xff\xff",
		"indefinite":       "\xbf\x01\x01\xff",
		"version 0":        "\xa6\x01\x00" + string(good[3:]),
		"1 with rules":     "\xa6\x01\x01" + string(good[3:]),
		"a short name":     string(good[:len(good)-17]) + "\x4f" + string(good[len(good)-15:]),
		"a long name":      string(good[:len(good)-17]) + "\x51" + string(good[len(good)-17:]),
		"2 without rules":  "\xa5\x01\x02" + string(good[3:len(good)-18]),
		"no version":       "\xa1\x02\x61e",
		"a huge version":   "\xa1\x01\x19\x01\x00",
		"no edge":          "\xa3\x01\x01\x03\x00\x04\x01",
	} {
		if b, err := hit.Decode([]byte(data)); err == nil || errors.Is(err, hit.ErrVersion) {
			t.Errorf("%s: decoded to %+v, %v", name, b, err)
		}
	}
}

// FuzzDecode feeds Decode any bytes: it must not panic, and every batch that it
// accepts must survive another encoding.
func FuzzDecode(f *testing.F) {
	for name := range goldens() {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("\xa1\x05\x9b\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if batches, err := hit.DecodeMessage(data, "e", 0, 1, 2); err == nil && len(batches) == 0 {
			t.Fatal("a message without a batch")
		}
		b, err := hit.Decode(data)
		if err != nil {
			return
		}
		for i := range b.Hits {
			_ = b.Hits[i].Valid()
		}
		if b.Version == 1 {
			b.Version, b.Rules = hit.Version, someRules
		}
		again, err := hit.Encode(b)
		if err != nil {
			t.Fatalf("decoded %+v, which cannot be encoded: %v", b, err)
		}
		if id := hit.RulesOf(again); id != b.Rules {
			t.Fatalf("RulesOf returns %s, want %s", id, b.Rules)
		}
		c, err := hit.Decode(again)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(b, c, cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestValidHit(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*hit.Hit)
		ok     bool
	}{
		"as it is":          {func(*hit.Hit) {}, true},
		"unknown kind":      {func(h *hit.Hit) { h.Kind = 9 }, false},
		"no list":           {func(h *hit.Hit) { h.List = "" }, false},
		"long item":         {func(h *hit.Hit) { h.Item = strings.Repeat("x", hit.MaxIDBytes+1) }, false},
		"item not UTF-8":    {func(h *hit.Hit) { h.Item = "a\xff" }, false},
		"control character": {func(h *hit.Hit) { h.Item = "a\nb" }, false},
		"C1 control":        {func(h *hit.Hit) { h.Item = "a\u0085b" }, false},
		"no time":           {func(h *hit.Hit) { h.Time = 0 }, false},
		"unknown source":    {func(h *hit.Hit) { h.PublishedFrom = 77 }, false},
		"a vote":            {func(h *hit.Hit) { *h = votes().Hits[1] }, true},
		"a long channel":    {func(h *hit.Hit) { h.Channel = strings.Repeat("x", hit.MaxChannelBytes) }, true},
		"too long a one":    {func(h *hit.Hit) { h.Channel = strings.Repeat("x", hit.MaxChannelBytes+1) }, false},
		"many quotas":       {func(h *hit.Hit) { h.Quotas = make([]hit.Quota, hit.MaxQuotas) }, true},
		"too many":          {func(h *hit.Hit) { h.Quotas = make([]hit.Quota, hit.MaxQuotas+1) }, false},
	} {
		h := sample().Hits[1]
		tc.change(&h)
		if err := h.Valid(); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSubject(t *testing.T) {
	t.Parallel()
	shard, edge, err := hit.ParseSubject(hit.Subject(15, "ab-1"))
	if err != nil || shard != 15 || edge != "ab-1" {
		t.Errorf("got %d, %q, %v", shard, edge, err)
	}
	for _, s := range []string{"", "hotboard.hits", "hotboard.hits.1", "hotboard.hits.x.e", "hotboard.hits.-1.e", "hotboard.hits.1.e.f", "hotboard.hits.1024.e", "other.1.e", "hotboard.hits.1.*"} {
		if _, _, err := hit.ParseSubject(s); err == nil {
			t.Errorf("%q was parsed", s)
		}
	}
}

// The values are FNV-1a's, computed apart from this code: a change would send the
// hits of an existing log to other shards.
func TestShardIsStable(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		list, item string
		n, want    int
	}{
		{"articles", "rust-in-caddy", 1, 0},
		{"articles", "rust-in-caddy", 16, shardFNV("articles\x00rust-in-caddy", 16)},
		{"a", "", 7, shardFNV("a\x00", 7)},
	} {
		if got := hit.Shard(hit.View, tc.list, tc.item, tc.n); got != tc.want {
			t.Errorf("shard of %s/%s in %d: got %d, want %d", tc.list, tc.item, tc.n, got, tc.want)
		}
	}
	// All votes of a list are in one shard, whatever their option.
	for _, item := range []string{"", "a", "the-knights"} {
		if got, want := hit.Shard(hit.Vote, "best-band", item, 16), shardFNV("best-band", 16); got != want {
			t.Errorf("shard of a vote for %q: got %d, want %d", item, got, want)
		}
		if got := hit.Shard(hit.Vote, "best-band", item, 1); got != 0 {
			t.Errorf("shard %d of 1", got)
		}
	}
	seen := map[int]int{}
	for i := range 16000 {
		seen[hit.Shard(hit.View, "articles", "item-"+strings.Repeat("x", i%7)+string(rune('a'+i%26))+string(rune('0'+i/26%10))+string(rune('0'+i/260%10))+string(rune('0'+i/2600)), 16)]++
	}
	for s, n := range seen {
		if n < 700 || n > 1300 {
			t.Errorf("shard %d has %d of 16000 items", s, n)
		}
	}
}

func shardFNV(s string, n uint64) int {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return int(h % n)
}

func BenchmarkDecode(b *testing.B) {
	batch := sample()
	for len(batch.Hits) < hit.MaxHits {
		batch.Hits = append(batch.Hits, batch.Hits[len(batch.Hits)%2])
	}
	data, err := hit.Encode(batch)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := hit.Decode(data); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*hit.MaxHits), "ns/hit")
}

package redisstore

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// All keys in Redis. <prefix> is Options.Prefix, "hotboard" by default; <n> is
// the number of a shard and, with its braces, the hash tag that keeps the keys
// of a shard in one slot of a Redis Cluster. In <list>, "%" is written %25 and
// ":" is written %3A; <set> is the unescaped name of a set.
//
//	<prefix>:meta                            hash
//	    layout      version of the layout in this comment: 4
//	    shards      number of shards, chosen when the store was created
//	    evicted     only after keys were evicted: when that was found, and how
//
//	<prefix>:members                         sorted set: owner → end of its membership
//	    in milliseconds since the Unix epoch, by the server's clock
//
//	<prefix>:{s<n>}:state                    hash
//	    pos, fp     Position: sequence in the log, fingerprint of that message
//	    ver         Position: random number of the last commit
//	    p:<edge>    highest applied batch sequence of that edge
//	    revision, rules   InForce: number of the revision, name of its document
//	    damaged     only after a commit that Redis executed in part: why
//	    canaries    number of canaries written with it
//
//	<prefix>:{s<n>}:losses                   hash: edge → "<from> <to> <batches>" of an
//	    unacknowledged store.Loss
//
//	<prefix>:{s<n>}:items:<list>             hash: item → record (see packItem)
//	<prefix>:{s<n>}:score:<list>:<set>       sorted set: item → score
//	<prefix>:{s<n>}:uniques:<list>:<set>     hash: item → uniques, decimal; only those above 0
//	<prefix>:{s<n>}:visitors:<list>:<set>    HyperLogLog of visitors, as decimal numbers
//	<prefix>:{s<n>}:totals                   hash: <list>:<set> → record (see packTotals)
//
//	<prefix>:{s<n>}:<term>:<list>:<start>:<b>   list, with a time to live
//	    One bucket (see bucketOf) of the memos of the term (day, week, month or
//	    ever) that begins at <start>, in seconds since the Unix epoch. Each element has
//	    the memos of one commit, in records of 11 bytes, little-endian: 7 the key
//	    without its highest byte, 4 the value. The last record of a key counts. Memos
//	    for ever have no time to live: they stay until an operator removes the list's
//	    keys.
//
//	<prefix>:{s<n>}:canary:<i>               string; every second one with a time to live
//	    of a hundred years. Nothing touches it: see evictions.go.
//
//	<prefix>:{s<n>}:lease                    string with a time to live: owner
//	<prefix>:{visitors}:<random>:<n>         string with a time to live of seconds:
//	    copy of a HyperLogLog, only in a Redis Cluster, which merges within a slot
const (
	layout = "4"

	fieldLayout      = "layout"
	fieldShards      = "shards"
	fieldSeq         = "pos"
	fieldFingerprint = "fp"
	fieldVersion     = "ver"
	fieldEvicted     = "evicted"
	fieldDamaged     = "damaged"
	fieldCanaries    = "canaries"
	fieldProducer    = "p:" // and the edge
	fieldRevision    = "revision"
	fieldRules       = "rules"
)

// keys builds the keys of one shard.
type keys struct {
	prefix string // "<prefix>:{s<n>}:"
}

func newKeys(prefix string, shard int) keys {
	return keys{prefix + ":{s" + strconv.Itoa(shard) + "}:"}
}

func metaKey(prefix string) string    { return prefix + ":meta" }
func membersKey(prefix string) string { return prefix + ":members" }

func (k keys) state() string                 { return k.prefix + "state" }
func (k keys) losses() string                { return k.prefix + "losses" }
func (k keys) items(list string) string      { return k.prefix + "items:" + escapeList(list) }
func (k keys) score(set store.Set) string    { return k.prefix + "score:" + setName(set) }
func (k keys) uniques(set store.Set) string  { return k.prefix + "uniques:" + setName(set) }
func (k keys) visitors(set store.Set) string { return k.prefix + "visitors:" + setName(set) }
func (k keys) totals() string                { return k.prefix + "totals" }
func (k keys) lease() string                 { return k.prefix + "lease" }

func (k keys) memos(id bucketID) string {
	return k.prefix + id.term.Name(calendar.Ever) + ":" + escapeList(id.list) + ":" + strconv.FormatInt(id.start, 10) + ":" + strconv.Itoa(id.bucket)
}

func (k keys) canaries() []string {
	all := make([]string, canaryCount)
	for i := range all {
		all[i] = k.prefix + "canary:" + strconv.Itoa(i)
	}
	return all
}

// setName is the form of a set in keys and in the fields of totals.
func setName(set store.Set) string { return escapeList(set.List) + ":" + set.Name }

// parseSet is the inverse of setName.
func parseSet(s string) store.Set {
	list, name, _ := strings.Cut(s, ":")
	return store.Set{List: listUnescaper.Replace(list), Name: name}
}

var (
	listEscaper   = strings.NewReplacer("%", "%25", ":", "%3A")
	listUnescaper = strings.NewReplacer("%25", "%", "%3A", ":")
)

func escapeList(list string) string {
	if !strings.ContainsAny(list, "%:") {
		return list
	}
	return listEscaper.Replace(list)
}

// packItem writes a record: a version byte (1), then varints.
func packItem(dst []byte, i *store.Item) []byte {
	dst = append(dst, 1)
	dst = binary.AppendVarint(dst, i.First)
	dst = binary.AppendVarint(dst, i.Last)
	dst = binary.AppendVarint(dst, i.Published)
	dst = binary.AppendUvarint(dst, uint64(i.PublishedFrom))
	return binary.AppendVarint(dst, i.Duplicates)
}

func unpackItem(s string, i *store.Item) error {
	r := recordReader{rest: s}
	r.version()
	i.First, i.Last, i.Published = r.varint(), r.varint(), r.varint()
	i.PublishedFrom = hit.Source(r.uvarint())
	i.Duplicates = r.varint()
	return r.end("item")
}

// packTotals writes a record: a version byte (1), then varints.
func packTotals(dst []byte, t *store.Totals) []byte {
	dst = append(dst, 1)
	for _, v := range [...]int64{t.Views, t.Uniques, t.Duplicates, t.Newest, t.Landmark} {
		dst = binary.AppendVarint(dst, v)
	}
	return dst
}

func unpackTotals(s string, t *store.Totals) error {
	r := recordReader{rest: s}
	r.version()
	t.Views, t.Uniques, t.Duplicates, t.Newest, t.Landmark = r.varint(), r.varint(), r.varint(), r.varint(), r.varint()
	return r.end("totals")
}

// maxRecordBytes is an upper bound of a record's size.
const maxRecordBytes = 1 + 6*binary.MaxVarintLen64

// recordReader reads the records of the pack functions. Its first error stays.
type recordReader struct {
	rest string
	bad  bool
}

func (r *recordReader) version() {
	if r.rest == "" || r.rest[0] != 1 {
		r.bad = true
		return
	}
	r.rest = r.rest[1:]
}

func (r *recordReader) uvarint() (v uint64) {
	for shift := 0; shift < 64 && len(r.rest) > 0; shift += 7 {
		b := r.rest[0]
		r.rest = r.rest[1:]
		if b < 0x80 {
			return v | uint64(b)<<shift
		}
		v |= uint64(b&0x7f) << shift
	}
	r.bad = true
	return 0
}

func (r *recordReader) varint() int64 {
	u := r.uvarint()
	return int64(u>>1) ^ -int64(u&1) // zigzag, as in encoding/binary
}

func (r *recordReader) end(what string) error {
	if r.bad || r.rest != "" {
		return fmt.Errorf("cannot read the record of %s in Redis: it is damaged, or a newer version of Hotboard wrote it", what)
	}
	return nil
}

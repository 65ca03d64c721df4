package importer

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/fxamacker/cbor/v2"

	"github.com/hotboard/hotboard/hit"
)

// Recording is a file of batches: a CBOR sequence of batches that an edge saved
// because the aggregator may not have counted them.
type Recording struct {
	file    io.ReadSeeker
	content [sha256.Size]byte
	// Batches is the number of readable batches, and Hits the number of hits in
	// them by list.
	Batches int
	Hits    map[string]int
	rules   map[hit.RulesID]bool // that the batches name
	// Bad is the error at which reading stopped, or nil. The rest of the file is
	// unreadable.
	Bad error
}

// ReadRecording reads a whole file of batches.
func ReadRecording(file io.ReadSeeker) (*Recording, error) {
	r := &Recording{file: file, Hits: map[string]int{}, rules: map[hit.RulesID]bool{}}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading the file: %w", err)
	}
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return nil, fmt.Errorf("reading the file: %w", err)
	}
	r.content = [sha256.Size]byte(h.Sum(nil))
	r.Bad = r.each(func(b *hit.Batch) error {
		r.Batches++
		if !b.Rules.IsZero() {
			r.rules[b.Rules] = true
		}
		for i := range b.Hits {
			r.Hits[b.Hits[i].List]++
		}
		return nil
	})
	if r.Batches == 0 && r.Bad != nil {
		return nil, fmt.Errorf("this is not a file of batches: %w", r.Bad)
	}
	return r, nil
}

// each calls do with every batch, up to the first unreadable one.
func (r *Recording) each(do func(*hit.Batch) error) error {
	if _, err := r.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading the file: %w", err)
	}
	for dec := cbor.NewDecoder(bufio.NewReader(r.file)); ; {
		var raw cbor.RawMessage
		err := dec.Decode(&raw)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		b, err := hit.Decode(raw)
		if err != nil {
			return err
		}
		if err := do(b); err != nil {
			return err
		}
	}
}

// Replay counts the batches of a recording, and returns when all are applied.
// They get an edge id of their own, a hash of the content: replaying a recording
// twice, or again after an interruption, counts it once. already reports whether
// all of it was applied before. Replay uses Conn, Rules and Progress of o only. It
// fails with [revisions.ErrNoDocument] if the broker lacks rules that the hits name:
// then nobody could count them.
func Replay(ctx context.Context, o Options, r *Recording) (already bool, err error) {
	im, err := begin(ctx, o)
	if err != nil {
		return false, err
	}
	for id := range r.rules {
		if _, err := im.book.Document(ctx, id); err != nil {
			return false, fmt.Errorf("%w (start the edge of the file again, or add them: aggregator rules add FILE)", err)
		}
	}
	im.batches = uint64(r.Batches)
	sum := sha256.Sum256(r.content[:])
	p := &producer{edge: "replay-" + hex.EncodeToString(sum[:8]), hits: make([][]hit.Hit, im.shards)}
	if p.applied, err = im.applied(ctx, p.edge); err != nil {
		return false, err
	}
	im.producers = []*producer{p}
	if im.counted() == im.total() {
		return true, nil
	}
	seq := uint64(0)
	err = r.each(func(b *hit.Batch) error {
		if p.rules = b.Rules; p.rules.IsZero() {
			p.rules = im.Rules.ID()
		}
		for _, h := range b.Hits { // the log may have another number of shards now
			shard := hit.Shard(h.Kind, h.List, h.Item, im.shards)
			p.hits[shard] = append(p.hits[shard], h)
		}
		seq++
		return im.send(ctx, seq)
	})
	if seq < im.batches {
		return false, errors.Join(errors.New("the file changed during reading"), err)
	}
	return false, im.wait(ctx)
}

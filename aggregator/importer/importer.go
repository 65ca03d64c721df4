// Package importer counts access logs: it judges the lines of a log by the rules
// of an edge, and publishes the views as an edge does.
//
// To the aggregator every log is a separate edge for each list. Its edge id is a
// hash of the content, and its batches depend only on the lines and the rules. So
// importing a log twice, or again after an interruption, counts it once, and a
// list added to the rules later can be imported later. On a list of bots, every
// list of pages has its own edge id.
package importer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/revisions"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/accesslog"
	"github.com/hotboard/hotboard/ruleset/bots"
)

// linesPerBatch is the number of lines of a log that make one batch for each
// shard, however few of them are views. It never changes, so that two imports of
// one log publish the same batches. One line is at most one view of a route.
const linesPerBatch = hit.MaxHits

// Options configures an import.
type Options struct {
	// Conn is a connection to the broker that keeps the log of hits.
	Conn *nats.Conn
	// Rules decide which requests are views, and the hits count by them. Of a
	// recording, those hits do that name no rules.
	Rules *ruleset.Rules
	// Patterns, if set, come from the file in the rules for bots.
	Patterns *bots.Patterns
	// List, if set, is the only list to count.
	List string
	// WithoutBotsCheck counts requests without a User-Agent in the log as
	// people's. Otherwise Import refuses such a log with [ErrNoUserAgents].
	WithoutBotsCheck bool
	// Progress, if set, is called now and then, from one goroutine at a time.
	Progress func(Progress)
}

// Progress is the progress of an import.
type Progress struct {
	Lines int // read so far
	// Published is the number of batches in the log, Counted the number of those
	// that are applied, and Batches the number of all batches, or 0 during the
	// first reading of the log.
	Published, Counted, Batches int
	// Waiting is the reason for a delay, for a person; empty if there is none.
	Waiting string
}

// ErrNoLog means that the broker has no log of hits.
var ErrNoLog = errors.New("no log of hits yet; start an aggregator once, which creates it")

// Import counts a log, and returns when all of it is applied. It waits for the
// broker and the aggregator until ctx is done. If it refuses a log with
// [ErrUnreadable] or [ErrNoUserAgents], it counts nothing.
func Import(ctx context.Context, o Options, log io.ReadSeeker) (*Summary, error) {
	im, err := begin(ctx, o)
	if err != nil {
		return nil, err
	}
	content, lines, err := fingerprint(log)
	if err != nil {
		return nil, err
	}
	im.batches = uint64((lines + linesPerBatch - 1) / linesPerBatch)
	if im.judge, err = newJudge(o, content); err != nil {
		return nil, err
	}
	if err := im.survey(ctx, log); err != nil {
		return nil, err
	}
	if im.judge, err = newJudge(o, content); err != nil { // start with an empty summary
		return nil, err
	}
	for _, r := range im.judge.routes {
		p := &producer{list: r.counts.Name, edge: edgeID(content, r.name())}
		if p.applied, err = im.applied(ctx, p.edge); err != nil {
			return nil, err
		}
		im.producers = append(im.producers, p)
	}
	already := im.counted() == im.total()
	if err := im.publish(ctx, log); err != nil {
		return nil, err
	}
	if err := im.wait(ctx); err != nil {
		return nil, err
	}
	s := im.judge.summary
	s.Already = already && im.total() > 0
	return &s, nil
}

// begin waits for the broker and returns a run without producers.
func begin(ctx context.Context, o Options) (*run, error) {
	js, err := jetstream.New(o.Conn)
	if err != nil {
		return nil, fmt.Errorf("using JetStream: %w", err)
	}
	im := &run{Options: o, js: js, book: revisions.New(func() *nats.Conn { return o.Conn }, 0)}
	if im.Progress == nil {
		im.Progress = func(Progress) {}
	}
	for began := time.Now(); !o.Conn.IsConnected(); {
		if time.Since(began) > 2*time.Second {
			im.report("NATS cannot be reached")
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return nil, fmt.Errorf("connecting to NATS: %w", ctx.Err())
		}
	}
	if im.shards, err = shards(ctx, js); err != nil {
		return nil, err
	}
	return im, im.book.PutDocument(ctx, o.Rules.Document())
}

// shards returns the number of shards in the log of hits.
func shards(ctx context.Context, js jetstream.JetStream) (int, error) {
	stream, err := js.Stream(ctx, hit.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, ErrNoLog
	}
	if err != nil {
		return 0, fmt.Errorf("looking at the stream %s: %w", hit.Stream, err)
	}
	n, err := strconv.Atoi(stream.CachedInfo().Config.Metadata[hit.StreamShards])
	if err != nil || n < 1 || n > hit.MaxShards {
		return 0, fmt.Errorf("the stream %s has no valid number of shards (metadata %s): an aggregator did not create it", hit.Stream, hit.StreamShards)
	}
	return n, nil
}

// edgeID returns the edge id for one route of one log.
func edgeID(content [sha256.Size]byte, route string) string {
	h := sha256.Sum256(append(content[:], route...))
	return "import-" + hex.EncodeToString(h[:8])
}

// run is one import or replay.
type run struct {
	Options
	js        jetstream.JetStream
	book      *revisions.Book
	shards    int
	batches   uint64 // of each route and shard
	judge     *judge
	producers []*producer
	progress  Progress
}

// scan reads the log from its beginning. It calls each with every line that is
// not empty: with the request, or with the error of the line.
func scan(log io.ReadSeeker, each func(line int, e *accesslog.Entry, bad *accesslog.LineError) error) (lines int, err error) {
	if _, err := log.Seek(0, io.SeekStart); err != nil {
		return 0, fmt.Errorf("reading the log again: %w", err)
	}
	r := accesslog.NewReader(log)
	for {
		entry, err := r.Next()
		if err == io.EOF {
			return r.Line(), nil
		}
		bad := (*accesslog.LineError)(nil)
		if err != nil && !errors.As(err, &bad) {
			return 0, err
		}
		if err := each(r.Line(), &entry, bad); err != nil {
			return 0, err
		}
	}
}

// survey judges the whole log before the import publishes any of it, and returns
// an error if it must not be imported.
func (im *run) survey(ctx context.Context, log io.ReadSeeker) (err error) {
	s := &im.judge.summary
	s.Lines, err = scan(log, func(line int, e *accesslog.Entry, bad *accesslog.LineError) error {
		if bad != nil {
			s.unreadable(bad)
		} else {
			im.judge.views(line, e)
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	return s.check(im.WithoutBotsCheck)
}

// publish reads the log from its beginning and publishes every batch that is not
// applied yet.
func (im *run) publish(ctx context.Context, log io.ReadSeeker) (err error) {
	for _, p := range im.producers {
		p.hits, p.rules = make([][]hit.Hit, im.shards), im.Rules.ID()
	}
	seq := uint64(1)
	s := &im.judge.summary
	s.Lines, err = scan(log, func(line int, e *accesslog.Entry, bad *accesslog.LineError) error {
		// Skipped lines may have ended one batch or several.
		for of := uint64((line-1)/linesPerBatch) + 1; seq < of; seq++ {
			if err := im.send(ctx, seq); err != nil {
				return err
			}
		}
		if bad != nil {
			s.unreadable(bad)
			return nil
		}
		for _, h := range im.judge.views(line, e) {
			p, shard := im.producers[h.route], hit.Shard(h.Kind, h.List, h.Item, im.shards)
			p.hits[shard] = append(p.hits[shard], h.Hit)
		}
		im.progress.Lines = line
		return nil
	})
	if err != nil {
		return err
	}
	for ; seq <= im.batches; seq++ {
		if err := im.send(ctx, seq); err != nil {
			return err
		}
	}
	return nil
}

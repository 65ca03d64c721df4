package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/datadir"
	"github.com/hotboard/hotboard/internal/faults"
)

// Limits of the supervision.
const (
	checkEvery = time.Second // interval between checks
	retryMin   = 100 * time.Millisecond
	retryMax   = 5 * time.Second
	askTimeout = time.Second // for a request to the server in this process
	// roomNeeded is the free disk space needed to start the server, which cannot
	// work on a full disk.
	roomNeeded = 1 << 20
	// maxAside is the largest number of damaged copies to keep. A disk that
	// damages more files needs replacing, and copies would fill it up.
	maxAside = 4
)

// keeper is the state of keepUp.
type keeper struct {
	refused bool   // the log refuses messages, and the fault is set
	tidied  bool   // keepUp has tidied the directory
	check   bool   // check a file for damage after opening it
	since   string // age of the log when the counts were damaged
}

// supervise keeps the backend running until ctx ends. It closes tried after its
// first attempt.
func (e *Embedded) supervise(ctx context.Context, tried chan<- struct{}) {
	backoff := retryMin
	e.up.check = true
	for {
		wait := checkEvery
		if err := e.keepUp(ctx); err != nil && ctx.Err() == nil {
			e.faults.Set(faults.BackendAway, faults.Whole, fmt.Sprintf("cannot use the data directory %s: %v", e.dir, err))
			wait, backoff = backoff, min(2*backoff, retryMax)
		} else {
			e.faults.Clear(faults.BackendAway, faults.Whole)
			backoff = retryMin
		}
		if tried != nil {
			close(tried)
			tried = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// keepUp opens the store, starts the server, and replaces damaged files. It
// returns the obstacles.
func (e *Embedded) keepUp(ctx context.Context) error {
	if e.store.CloseIfRemoved() {
		e.log.Error("somebody has removed the counts while they are in use: counting begins anew with what the log still has", "file", filepath.Join(e.dir, countsFile))
	}
	if !e.store.Locked() {
		if err := datadir.Make(e.dir); err != nil {
			return err
		}
	}
	errStore := e.keepStore(ctx)
	if !e.store.Locked() {
		return errStore // another process may own the files in the directory
	}
	if !e.up.tidied {
		if err := datadir.Tidy(e.dir); err != nil {
			e.log.Warn("cannot remove leftover files of a crash; they do no harm", "error", err)
		}
		e.up.tidied = true
	}
	errServer := e.keepServer()
	e.saveURL()
	e.showAside(ctx)
	return errors.Join(errStore, errServer)
}

// keepStore opens the counts. It moves a damaged file aside; the aggregator then
// counts its hits again from the log.
func (e *Embedded) keepStore(ctx context.Context) error {
	if damage := e.store.Damage(); damage != nil {
		if err := e.setAside(e.store.SetAside, countsFile, damage); err != nil {
			return err
		}
	}
	open := e.store.IsOpen()
	if err := e.store.Open(ctx); err != nil {
		return err
	}
	if open || !e.up.check {
		return nil
	}
	e.tasks.Go(func() {
		err := e.store.Check(ctx)
		if err != nil && ctx.Err() == nil && e.store.Damage() == nil {
			e.log.Warn("cannot check the counts for damage", "error", err)
		}
	})
	return nil
}

// keepServer starts the server, and restarts it when the log refuses messages
// although the disk has room.
func (e *Embedded) keepServer() error {
	if _, err := os.Stat(e.broker.dir); e.broker.running.Load() != nil && errors.Is(err, os.ErrNotExist) {
		e.log.Error("somebody has removed the log while it is in use: it is begun anew", "directory", e.broker.dir)
		e.broker.shutdown()
	}
	if e.broker.running.Load() != nil {
		err := e.broker.health()
		switch {
		case errors.Is(err, errUnrecovered):
			return e.replaceLog(err)
		case errors.Is(err, errRefuses):
			e.up.refused = true
			room := datadir.Room(e.dir, roomNeeded)
			// For shard 0: the aggregator sets the fault of the whole from the
			// reports of edges.
			e.faults.Set(faults.LogRefuses, 0, refusal(err, room))
			if room != nil {
				return nil
			}
			e.broker.shutdown()
		default:
			if e.up.refused {
				e.faults.Clear(faults.LogRefuses, 0)
				e.up.refused = false
			}
			return nil
		}
	}
	if err := datadir.Room(e.dir, roomNeeded); err != nil {
		return err
	}
	err := e.broker.start()
	if err != nil && !errors.Is(err, errSlow) {
		return e.replaceLog(err)
	}
	if err == nil {
		// Check for streams that the server failed to load before anybody uses
		// it.
		if err := e.broker.health(); errors.Is(err, errUnrecovered) {
			return e.replaceLog(err)
		}
	}
	return err
}

func refusal(err, room error) string {
	if room == nil {
		return err.Error() + "; restarting the server"
	}
	return fmt.Sprintf("%v; the server restarts once there is room: %v", err, room)
}

// replaceLog begins a new log. The edges send again the hits of the old one that
// are not applied yet.
func (e *Embedded) replaceLog(cause error) error {
	e.broker.shutdown()
	// An unreadable directory is not damage, and is a fault only as long as its
	// cause lasts.
	if _, err := os.ReadDir(e.broker.dir); err != nil && !errors.Is(err, os.ErrNotExist) && !isFile(e.broker.dir) {
		return errors.Join(cause, err)
	}
	err := e.setAside(func(now time.Time) (string, error) { return datadir.SetAside(now, e.broker.dir) }, natsDir, cause)
	if err != nil {
		return err
	}
	return e.broker.start()
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}

// setAside moves a damaged file aside, unless there are too many copies already.
func (e *Embedded) setAside(move func(time.Time) (string, error), name string, cause error) error {
	before, err := datadir.Aside(filepath.Join(e.dir, name))
	if err != nil {
		return fmt.Errorf("%w (and cannot read the directory: %w)", cause, err)
	}
	if len(before) >= maxAside {
		return fmt.Errorf("%w (%d damaged copies exist already: check the disk and delete them; the file is then created again)", cause, len(before))
	}
	aside, err := move(time.Now())
	if err != nil {
		return fmt.Errorf("%w (and cannot move it aside: %w)", cause, err)
	}
	e.log.Error("moved a damaged file aside and began a new one", "file", filepath.Join(e.dir, name), "moved_to", aside, "cause", cause)
	return nil
}

// showAside raises faults for files set aside, as long as they exist.
func (e *Embedded) showAside(ctx context.Context) {
	if aside, err := datadir.Aside(filepath.Join(e.dir, countsFile)); err == nil && len(aside) > 0 {
		if e.up.since == "" {
			e.up.since = e.logSince(ctx)
		}
		e.faults.Set(faults.StoreDamaged, faults.Whole, fmt.Sprintf(
			"the counts were damaged: counting again from the log%s. Only %s holds older counts. Restore a backup of %s, or accept the loss; then delete the damaged file or move it away",
			e.up.since, aside[len(aside)-1], countsFile))
	} else if err == nil {
		e.faults.Clear(faults.StoreDamaged, faults.Whole)
		e.up.since = ""
	}
	if aside, err := datadir.Aside(e.broker.dir); err == nil && len(aside) > 0 {
		e.faults.Set(faults.LogDamaged, faults.Whole, fmt.Sprintf(
			"the log was damaged and replaced by a new one: the counts stay, and the edges send hits again that were not counted. The new log cannot restore older counts, so make a backup of %s; then delete %s or move it away",
			countsFile, aside[len(aside)-1]))
	} else if err == nil {
		e.faults.Clear(faults.LogDamaged, faults.Whole)
	}
}

// logSince returns the time of the first message in the log, as a part of a
// sentence, or "" if unknown.
func (e *Embedded) logSince(ctx context.Context) string {
	nc := e.own.Load()
	if nc == nil || !nc.IsConnected() {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	js, err := jetstream.New(nc)
	if err != nil {
		return ""
	}
	stream, err := js.Stream(ctx, hit.Stream)
	if err != nil {
		return ""
	}
	if state := stream.CachedInfo().State; state.Msgs > 0 {
		return ", which begins at " + state.FirstTime.UTC().Format(time.RFC3339)
	}
	return ", which is empty"
}

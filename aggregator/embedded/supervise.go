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

// How the backend is kept up.
const (
	checkEvery = time.Second // between two looks at what runs
	retryMin   = 100 * time.Millisecond
	retryMax   = 5 * time.Second
	askTimeout = time.Second // of a question to the server in this process
	// roomNeeded is how much has to fit on the disk before the server is started: on
	// one that is full it would not get far.
	roomNeeded = 1 << 20
	// maxAside is how many damaged copies of a file are kept. A disk that damages
	// more than that is not worth rebuilding on, and would be full of them.
	maxAside = 4
)

// keeper is what keepUp has to remember.
type keeper struct {
	refused bool   // the log stores nothing, and that is a fault
	tidied  bool   // the directory
	check   bool   // a file that is opened, for damage
	since   string // how far back the log went when the counts were damaged
}

// supervise keeps the backend up until ctx ends. It closes tried after its first
// try.
func (e *Embedded) supervise(ctx context.Context, tried chan<- struct{}) {
	backoff := retryMin
	e.up.check = true
	for {
		wait := checkEvery
		if err := e.keepUp(ctx); err != nil && ctx.Err() == nil {
			e.faults.Set(faults.BackendAway, faults.Whole, fmt.Sprintf("the data directory %s cannot be used: %v", e.dir, err))
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

// keepUp opens what is not open, and replaces what cannot be used any more. It
// returns what stands in the way.
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
		return errStore // what is in the directory may be another process's
	}
	if !e.up.tidied {
		if err := datadir.Tidy(e.dir); err != nil {
			e.log.Warn("files that a crash has left behind stay; they do no harm", "error", err)
		}
		e.up.tidied = true
	}
	errServer := e.keepServer()
	e.saveFiles()
	e.showAside(ctx)
	return errors.Join(errStore, errServer)
}

// keepStore opens the counts. A damaged file is moved aside, and what it held is
// counted again from the log.
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
			e.log.Warn("the counts could not be checked for damage", "error", err)
		}
	})
	return nil
}

// keepServer starts the server, and starts it again when the log stores nothing
// and could.
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
			// Of the shard, because the aggregator shows what edges report of it as a whole.
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
		// What it has not recovered is better known before anybody uses it.
		if err := e.broker.health(); errors.Is(err, errUnrecovered) {
			return e.replaceLog(err)
		}
	}
	return err
}

func refusal(err, room error) string {
	if room == nil {
		return err.Error() + "; the server is started again"
	}
	return fmt.Sprintf("%v; the server is started again once there is room: %v", err, room)
}

// replaceLog begins a new log. What was in the old one and is not counted, the
// edges send again.
func (e *Embedded) replaceLog(cause error) error {
	e.broker.shutdown()
	// A directory that cannot be read is no damage, and goes when the cause does.
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

// setAside moves a damaged file aside, unless that happens too often.
func (e *Embedded) setAside(move func(time.Time) (string, error), name string, cause error) error {
	before, err := datadir.Aside(filepath.Join(e.dir, name))
	if err != nil {
		return fmt.Errorf("%w (and the directory cannot be read: %w)", cause, err)
	}
	if len(before) >= maxAside {
		return fmt.Errorf("%w (%d damaged copies of it are there already: look at the disk, delete them, and it is begun anew)", cause, len(before))
	}
	aside, err := move(time.Now())
	if err != nil {
		return fmt.Errorf("%w (and it cannot be moved aside: %w)", cause, err)
	}
	e.log.Error("damaged: moved aside and begun anew", "file", filepath.Join(e.dir, name), "moved_to", aside, "cause", cause)
	return nil
}

// showAside shows the faults of what was moved aside, as long as it is there.
func (e *Embedded) showAside(ctx context.Context) {
	if aside, err := datadir.Aside(filepath.Join(e.dir, countsFile)); err == nil && len(aside) > 0 {
		if e.up.since == "" {
			e.up.since = e.logSince(ctx)
		}
		e.faults.Set(faults.StoreDamaged, faults.Whole, fmt.Sprintf(
			"the counts were damaged: they are counted again from the log%s; what is older is only in %s. Restore a backup of %s, or do without; then delete the damaged file or move it away",
			e.up.since, aside[len(aside)-1], countsFile))
	} else if err == nil {
		e.faults.Clear(faults.StoreDamaged, faults.Whole)
		e.up.since = ""
	}
	if aside, err := datadir.Aside(e.broker.dir); err == nil && len(aside) > 0 {
		e.faults.Set(faults.LogDamaged, faults.Whole, fmt.Sprintf(
			"the log was damaged and is begun anew: what was counted stays, and the edges send again what was not. Counts from before cannot be counted again, so make a backup of %s; then delete %s or move it away",
			countsFile, aside[len(aside)-1]))
	} else if err == nil {
		e.faults.Clear(faults.LogDamaged, faults.Whole)
	}
}

// logSince returns how far back the log goes, as a part of a sentence; "" while
// nobody knows.
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
		return ", which goes back to " + state.FirstTime.UTC().Format(time.RFC3339)
	}
	return ", which is empty"
}

// Package botsfile reloads the patterns of a file of bots when the file changes.
package botsfile

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/ruleset/bots"
)

// pollEvery is the interval of the checks for changes.
const pollEvery = 2 * time.Second

// File keeps the patterns of a file in force. While the file is unusable, the
// last valid patterns stay.
type File struct {
	path   string
	logger *zap.Logger

	mu         sync.Mutex
	patterns   *bots.Patterns
	classifier *bots.Classifier // nil until Use

	failing bool        // the last attempt failed
	read    os.FileInfo // the version of the last attempt; nil if there was no file
}

// Open reads the file for the first time. An error names the file and its mistake.
func Open(path string, logger *zap.Logger) (*File, error) {
	f := &File{path: path, logger: logger}
	f.read, _ = os.Stat(path) // reading reports the error
	patterns, err := bots.LoadFile(path)
	if err != nil {
		return nil, err
	}
	f.patterns = patterns
	return f, nil
}

// Use passes the patterns to a classifier, now and after every change. The
// classifier before it keeps the patterns that it has.
func (f *File) Use(c *bots.Classifier) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.classifier = c
	c.SetPatterns(f.patterns)
}

func (f *File) set(p *bots.Patterns) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.patterns = p
	if f.classifier != nil {
		f.classifier.SetPatterns(p)
	}
}

// Watch reads the file again after every change, until ctx ends. An unusable file
// raises a fault.
func (f *File) Watch(ctx context.Context, found *faults.Registry) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.Check(found)
		}
	}
}

// Check reads the file again if it has changed since the last attempt. It must
// not run concurrently with Watch.
func (f *File) Check(found *faults.Registry) {
	if err := f.readAgain(); err != nil {
		found.Set(faults.BotsFile, faults.Whole, fmt.Sprintf("%v; the last valid patterns stay in force", err))
	} else {
		found.Clear(faults.BotsFile, faults.Whole)
	}
}

func (f *File) readAgain() error {
	info, err := os.Stat(f.path)
	if err != nil {
		info = nil
	}
	same := sameVersion(f.read, info)
	// Try an unusable file again: its permissions may have changed.
	if same && !f.failing {
		return nil
	}
	f.read = info
	patterns, err := bots.LoadFile(f.path)
	f.failing = err != nil
	if err != nil {
		return fmt.Errorf("reading the file of bots: %w", err)
	}
	f.set(patterns)
	f.logger.Info("read the changed file of bots", zap.String("file", f.path), zap.Int("patterns", patterns.Len()))
	return nil
}

// sameVersion reports whether a file is unchanged; nil stands for a missing file.
func sameVersion(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

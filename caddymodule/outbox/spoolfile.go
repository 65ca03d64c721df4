package outbox

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/hotboard/hotboard/hit"
)

// openSpool opens or creates the spool in dir and returns what it holds.
func openSpool(dir string, shards int, maxBytes int64) (_ *spool, _ []extent, err error) {
	if err := makeDir(dir); err != nil {
		return nil, nil, fmt.Errorf("creating the spool directory: %w", err)
	}
	path := filepath.Join(dir, spoolFile)
	defer func() {
		// bbolt panics on some damaged files.
		if r := recover(); r != nil {
			err = fmt.Errorf("spool %s is damaged (move it away to start with an empty one; what it holds is then not counted): %v", path, r)
		}
	}()
	db, err := openFile(path)
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, nil, fmt.Errorf("spool %s is in use: is another Caddy still running? Each edge process needs a directory of its own", path)
	case err != nil:
		return nil, nil, fmt.Errorf("opening spool %s (a damaged file can be moved away to start with an empty one; what it holds is then not counted): %w", path, err)
	}
	s := &spool{db: db, path: path, shards: shards, max: maxBytes, commit: (*bbolt.Tx).Commit}
	if err := s.init(); err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	extents, err := s.scan()
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return s, extents, nil
}

func openFile(path string) (*bbolt.DB, error) {
	if err := checkLength(path); err != nil {
		return nil, err
	}
	return bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout: lockTimeout,
		// Else each commit writes the list of free pages: 2 MB after a backlog
		// of 1 GiB. Without it, opening reads the whole file once.
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
		NoStatistics:   true,
	})
}

// checkLength refuses a file that was cut off: reading beyond its end through
// the memory map would crash the process.
func checkLength(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil // bbolt makes a new one
	}
	if err != nil {
		return err
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: lockTimeout})
	if err != nil {
		return err
	}
	err = db.View(func(tx *bbolt.Tx) error {
		if tx.Size() > info.Size() {
			return fmt.Errorf("it was cut off: %d of %d bytes are there", info.Size(), tx.Size())
		}
		return nil
	})
	return errors.Join(err, db.Close())
}

// makeDir creates dir so that it survives a power cut.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if err := makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return syncDir(parent)
}

func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // a directory cannot be synced there
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("syncing directory %s: %w", dir, err)
	}
	return nil
}

func newEdge() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// init reads the meta bucket, or writes it into a new file.
func (s *spool) init() error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		meta := tx.Bucket([]byte(bucketMeta))
		if meta == nil {
			var err error
			if meta, err = tx.CreateBucket([]byte(bucketMeta)); err != nil {
				return err
			}
			if _, err := tx.CreateBucketIfNotExists([]byte(bucketEdges)); err != nil {
				return err
			}
			err = errors.Join(
				meta.Put([]byte(keyFormat), []byte(spoolFormat)),
				meta.Put([]byte(keyShards), []byte(strconv.Itoa(s.shards))),
				meta.Put([]byte(keyEdge), []byte(newEdge())))
			if err != nil {
				return fmt.Errorf("writing spool %s: %w", s.path, err)
			}
		}
		if f := string(meta.Get([]byte(keyFormat))); f != spoolFormat {
			return fmt.Errorf("spool %s has format %q, this build reads %q: let the build that wrote it send everything, then delete the file", s.path, f, spoolFormat)
		}
		if n := string(meta.Get([]byte(keyShards))); n != strconv.Itoa(s.shards) {
			return fmt.Errorf("spool %s was made for %s shards, not %d: the number is chosen once for a log; to join another log, let this spool send everything, then delete the file", s.path, n, s.shards)
		}
		s.edge = string(meta.Get([]byte(keyEdge)))
		if !hit.ValidEdge(s.edge) || tx.Bucket([]byte(bucketEdges)) == nil {
			return fmt.Errorf("spool %s is damaged: no edge id", s.path)
		}
		return nil
	})
}

// scan measures the spool and checks that no sequence is missing.
func (s *spool) scan() ([]extent, error) {
	var extents []extent
	err := s.db.View(func(tx *bbolt.Tx) error {
		edges := tx.Bucket([]byte(bucketEdges))
		return edges.ForEachBucket(func(edge []byte) error {
			b := edges.Bucket(edge)
			return b.ForEachBucket(func(name []byte) error {
				shard, err := strconv.Atoi(string(name))
				if err != nil || shard < 0 || shard >= s.shards {
					return fmt.Errorf("spool %s is damaged: shard %q", s.path, name)
				}
				e, err := s.scanShard(b.Bucket(name))
				if err != nil {
					return fmt.Errorf("spool %s, shard %d: %w", s.path, shard, err)
				}
				e.edge, e.shard = string(edge), shard
				extents = append(extents, e)
				return nil
			})
		})
	})
	return extents, err
}

func (s *spool) scanShard(b *bbolt.Bucket) (extent, error) {
	last := b.Sequence()
	e := extent{low: last + 1, last: last}
	next := uint64(0)
	for k, v := range all(b) {
		seq := binary.BigEndian.Uint64(k)
		if next == 0 {
			e.low, next = seq, seq
		}
		if seq != next || len(v) < timeBytes {
			return e, fmt.Errorf("damaged: batch %d is missing or short", next)
		}
		next++
		s.batches.Add(1)
		s.bytes.Add(size(v))
	}
	if next != 0 && next != last+1 {
		return e, fmt.Errorf("damaged: the last batch is %d, not %d", next-1, last)
	}
	return e, nil
}

// all yields the entries of a bucket in ascending order.
func all(b *bbolt.Bucket) func(yield func(k, v []byte) bool) {
	return func(yield func(k, v []byte) bool) {
		c := b.Cursor()
		for k, v := c.First(); k != nil && yield(k, v); k, v = c.Next() {
		}
	}
}

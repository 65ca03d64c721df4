package sqlitestore_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/sqlitestore"
	"github.com/hotboard/hotboard/aggregator/store/storetest"
)

func open(t testing.TB, path string, shards int) *sqlitestore.Store {
	t.Helper()
	s, err := sqlitestore.Open(context.Background(), sqlitestore.Options{Path: path, Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // a test may have closed it
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	var paths sync.Map // store → its file
	storetest.Run(t, storetest.Backend{
		Open: func(t testing.TB, shards int) store.Store {
			t.Helper()
			path := filepath.Join(t.TempDir(), "counts.db")
			s := open(t, path, shards)
			paths.Store(s, path)
			return s
		},
		Reopen: func(t testing.TB, s store.Store) store.Store {
			t.Helper()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			path, _ := paths.Load(s)
			return open(t, path.(string), s.Shards())
		},
	})
}

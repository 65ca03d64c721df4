package outbox

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// Whatever somebody removes of a spool that is in use, its hits are on the disk
// again before the next ones are acknowledged, so that the next process sends them.
func TestRemovedWhileInUse(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(dir string) error{
		"the directory": os.RemoveAll,
		"its segments": func(dir string) error {
			segments, err := filepath.Glob(filepath.Join(dir, "*.hits"))
			for _, path := range segments {
				if err := os.Remove(path); err != nil {
					return err
				}
			}
			return err
		},
		"its documents": func(dir string) error { return os.RemoveAll(filepath.Join(dir, documentDir)) },
		"its state and lock": func(dir string) error {
			for _, path := range []string{"state.0", "state.1", "lock"} {
				if err := os.Remove(filepath.Join(dir, path)); err != nil {
					return err
				}
			}
			return nil
		},
		"the directory, which is another one now": func(dir string) error {
			if err := os.Rename(dir, dir+"-old"); err != nil {
				return err
			}
			return os.Mkdir(dir, 0o700)
		},
	} {
		for next, wait := range map[string]time.Duration{"then more hits come": 0, "then nothing comes": 2 * lookEvery} {
			t.Run(name+", "+next, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					dir := filepath.Join(t.TempDir(), "spool")
					first := open(t, Options{Dir: dir})
					items := names("before", 20)
					mustAppend(t, first, items...)
					if err := remove(dir); err != nil {
						t.Fatal(err)
					}
					if time.Sleep(wait); wait == 0 {
						more := names("after", 20)
						mustAppend(t, first, more...)
						items = append(items, more...)
					}
					// A copy has the files that a process killed now would leave behind.
					bus := newFakeBus()
					second := open(t, Options{Dir: copyDir(t, dir)})
					if missing := second.spool.missingDocuments(); len(missing) > 0 {
						t.Errorf("missing: %+v", missing)
					}
					stop := start(t, second, bus)
					time.Sleep(time.Minute)
					bus.wantCounted(t, items...)
					stop()
					closeNow(t, second)
					closeNow(t, first)
				})
			})
		}
	}
}

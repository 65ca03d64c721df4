package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hotboard/hotboard/e2e/plaincount"
	"github.com/hotboard/hotboard/e2e/services"
	"github.com/hotboard/hotboard/e2e/stack"
)

// logs are the access logs that the test imports.
var logs = map[string]string{
	"sample":   "testdata/access.log",
	"real log": "../../shared/data/semicomplete-access.log", // not part of this repository
}

// TestImport imports access logs with the aggregator's command, and compares the
// board of every day with a count of the log in the simplest code. A second import
// must change nothing.
func TestImport(t *testing.T) {
	t.Parallel()
	for name, file := range logs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := plainCount(t, file)
			t.Run("NATS and Redis", func(t *testing.T) {
				t.Parallel()
				s := stack.Start(t, stack.Options{Rules: plaincount.Rules})
				for range 2 {
					importLog(t, file, "-config", s.Aggregators[0].Config)
					boardsAre(t, want, s.Aggregators[0].URL)
				}
			})
			t.Run("SQLite", func(t *testing.T) {
				t.Parallel()
				rules := stack.WriteRules(t, plaincount.Rules)
				data := t.TempDir()
				// Nobody uses the directory: the import starts the embedded backend itself.
				importLog(t, file, "-data", data, "-rules", rules)
				edge := stack.StartEdge(t, stack.EdgeOptions{Broker: "embedded " + data, Rules: rules})
				boardsAre(t, want, edge.URL)
				// Now a site uses it.
				importLog(t, file, "-data", data)
				boardsAre(t, want, edge.URL)
			})
		})
	}
}

// plainCount counts a log in the simplest code.
func plainCount(t *testing.T, file string) *plaincount.Counts {
	t.Helper()
	log, err := os.Open(filepath.FromSlash(file))
	if os.IsNotExist(err) {
		t.Skipf("%s is not there: it is not part of this repository", file)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	lines, err := plaincount.Read(log)
	if err != nil {
		t.Fatal(err)
	}
	counts := plaincount.Count(lines)
	if days := counts.Days(); len(days) < 4 {
		t.Fatalf("the log has views on %q alone: that proves little", days)
	}
	return counts
}

// importLog runs the aggregator's import.
func importLog(t *testing.T, file string, args ...string) {
	t.Helper()
	args = append(append([]string{"import"}, args...), file)
	out, err := exec.CommandContext(t.Context(), services.Binary(t, services.Aggregator), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("aggregator %q: %v\n%s", args, err, out)
	}
	t.Logf("aggregator %q:\n%s", args, out)
}

// boardsAre waits until a site has counted everything, and compares its boards.
func boardsAre(t *testing.T, want *plaincount.Counts, url string) {
	t.Helper()
	eventually(t, func() string {
		if err := want.CheckTotals(t.Context(), url); err != nil {
			return err.Error()
		}
		return ""
	})
	if err := want.CheckBoards(t.Context(), url); err != nil {
		t.Error(err)
	}
}

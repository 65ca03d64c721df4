package caddymodule

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hotboard/hotboard/e2e/damage"
	"github.com/hotboard/hotboard/internal/faults"
)

// lostBatches returns the number of lost batches in the edge's faults.
func lostBatches(rt *runtime) (lost int) {
	for _, f := range rt.faults.Active() {
		if m := lostText.FindStringSubmatch(f.Message); f.Kind == faults.SpoolDamaged && m != nil {
			lost, _ = strconv.Atoi(m[1])
		}
	}
	return lost
}

var lostText = regexp.MustCompile(`could not be read from the spool: (\d+)\.`)

// TestDamage damages, in each way, each file of an edge that has hits nobody else
// has. The edge comes up and serves pages, and each hit is counted or reported.
func TestDamage(t *testing.T) {
	log := startLog(t, 1)
	const away = "nats nats://127.0.0.1:1 {\n shards 1\n }"
	site := func(dir, broker string) string {
		return strings.NewReplacer("DIR", dir, "NATS", broker).Replace(limited("damaged", ""))
	}
	// fill is a process that accepts five batches, of two hits of an item each, while
	// NATS is away.
	var provisioning sync.Mutex // Caddy provisions one configuration at a time
	fill := func(dir, item string) {
		provisioning.Lock()
		e, err := provisionEdge(t, site(dir, away))
		provisioning.Unlock()
		if err != nil {
			t.Error(err)
			return
		}
		if err := e.app.Start(); err != nil {
			t.Error(err)
		}
		for i := range 5 {
			body := fmt.Sprintf(`[{"articleId":%q,"fingerprint":"%d"},{"articleId":%[1]q,"fingerprint":"%d"}]`, item, 2*i, 2*i+1)
			if w := e.do(fetch("POST", "/api/views", body, "Content-Type", "application/json")); w.Code != http.StatusAccepted {
				t.Errorf("a beacon: %d %s", w.Code, w.Body)
			}
		}
		if err := e.app.Cleanup(); err != nil { // takes as long as an edge tries to publish
			t.Error(err)
		}
	}
	first := t.TempDir()
	fill(first, "first")

	type edgeCase struct{ name, dir, item string }
	var cases []edgeCase
	for _, file := range damage.Files(t, first) {
		for kind := range damage.Kinds {
			cases = append(cases, edgeCase{file + "/" + kind, t.TempDir(), fmt.Sprint("item-", len(cases))})
		}
	}
	var filled sync.WaitGroup
	for _, c := range cases {
		filled.Go(func() { fill(c.dir, c.item) })
	}
	filled.Wait()

	came := map[string]int{} // by item
	for _, c := range cases {
		file, kind := filepath.Dir(c.name), filepath.Base(c.name)
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(c.dir, file)
			damage.Kinds[kind](t, path)
			e := startEdge(t, nil, site(c.dir, natsBroker(log.url)))
			if w := e.do(browse("/damaged/page-" + c.item)); w.Code != http.StatusOK {
				t.Fatalf("a page: %d %s", w.Code, w.Body)
			}
			rt := e.app.rt.Load()
			failing := func(f faults.Fault) bool { return f.Kind == faults.SpoolFailing }
			if info, err := os.Stat(path); err == nil && info.IsDir() && slices.ContainsFunc(rt.faults.Active(), failing) {
				if err := os.RemoveAll(path); err != nil { // as the fault asks for
					t.Fatal(err)
				}
			}
			defer func() {
				if t.Failed() {
					t.Logf("%d hits came; %v", came[c.item], rt.faults.Active())
				}
			}()
			settle(t, "hits to come or to be reported", func() bool {
				for {
					select {
					case h := <-log.hits:
						came[h.Item]++
						continue
					default:
					}
					return came["page-"+c.item] == 1 && came[c.item]+2*lostBatches(rt) == 10
				}
			})
		})
	}
}

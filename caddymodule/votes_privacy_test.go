package caddymodule

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
)

// Nothing of who votes leaves the edge, is logged or is on its disk.
func TestVotersStayUnknown(t *testing.T) {
	log := startLog(t, 1)
	var mu sync.Mutex
	var wire bytes.Buffer
	log.subscribe(t, ">", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(&wire, m.Subject, m.Header)
		wire.Write(m.Data)
	})
	logFile := filepath.Join(t.TempDir(), "caddy.log")
	config := strings.NewReplacer(
		"http:// {", "http:// {\n bind unix/SOCKET",
		"NATS", natsBroker(log.url),
		"{\n	hotboard {\n		dir", "{\n log {\n output file "+logFile+"\n level DEBUG\n }\n	hotboard {\n		dir",
	).Replace(pollSite(`limit user {
			by user ip
			max 2 per week
			max 3 per campaign
			max 1 per second burst 10
		}`, "user_from_body"))
	c := runCaddy(t, config)
	var rt *runtime
	runtimes.Range(func(_, v any) bool { rt = v.(*runtime); return false })
	settle(t, "the secrets", rt.secrets.AllShared)

	const user, named, agent, token = "ann.secretive@example.com", "bob.secretive@example.com", firefox + " Distinctive/77", "distinctive-token"
	const ip4, ip6 = "203.0.113.77", "2001:db8:77:77::77"
	status := make(map[int]int)
	for _, vote := range []struct{ ip, body, user string }{
		{ip4, `{"list":"wishes","option":"a"}`, user},
		{ip6, `{"list":"wishes","option":"b"}`, user},
		{ip4, `{"list":"colours","option":"red","user":"` + named + `"}`, ""},
		{ip6, `{"list":"colours","option":"red"}`, ""},
		{ip4, `{"list":"wishes","option":"a","user":"` + named + `"}`, user}, // refused
		{ip4, `{"list":"wishes","option":"c"}`, user},
		{ip4, `{"list":"wishes","option":"d"}`, user}, // limited
		{ip4, `{"list":"wishes","option":`, user},     // refused
	} {
		r, err := http.NewRequest(http.MethodPost, "http://example.com/api/votes", strings.NewReader(vote.body))
		if err != nil {
			t.Fatal(err)
		}
		setHeaders(r, []string{"Content-Type", "application/json", "User-Agent", agent, "X-Forwarded-For", vote.ip, "X-User", vote.user, "Cookie", "session=" + token, "Authorization", "Bearer " + token})
		resp, _, err := c.send(r)
		if err != nil {
			t.Fatal(err)
		}
		status[resp.StatusCode]++
	}
	if status[202] != 5 || status[403] != 1 || status[429] != 1 || status[400] != 1 {
		t.Fatalf("the votes were answered %v", status)
	}
	for range status[202] {
		log.next(t)
	}

	places := make(map[string][]byte)
	mu.Lock()
	places["the wire"] = bytes.Clone(wire.Bytes())
	mu.Unlock()
	var err error
	if places["the log"], err = os.ReadFile(logFile); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(filepath.Join(c.dir, "data"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			places[path], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(places["the wire"], []byte("wishes")) || len(places) < 4 {
		t.Fatalf("%d places, %d bytes on the wire: that proves nothing", len(places), len(places["the wire"]))
	}
	secrets := []string{user, named, "secretive", "Distinctive", firefox, token, ip4, "2001:db8"}
	for _, ip := range []string{ip4, ip6} {
		a := netip.MustParseAddr(ip)
		secrets = append(secrets, string(a.AsSlice()))
	}
	for place, data := range places {
		for _, s := range secrets {
			if bytes.Contains(data, []byte(s)) {
				t.Errorf("%q is in %s", s, place)
			}
		}
	}
}

package services

import (
	"bufio"
	"context"
	"net"
	"strings"
	"testing"
)

// redisDo sends one inline command and returns the first line of the answer.
func redisDo(t *testing.T, r *Redis, command string) string {
	t.Helper()
	conn, err := net.Dial("tcp", r.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(command + "\r\n")); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func TestRedisComesBackWithItsData(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		args []string
		end  func(*Redis)
		want string
	}{
		{"append-only file and kill", []string{"--appendonly", "yes", "--appendfsync", "always"}, (*Redis).Kill, ":2"},
		{"nothing on disk and kill", nil, (*Redis).Kill, ":1"},
		{"append-only file and stop", []string{"--appendonly", "yes"}, (*Redis).Stop, ":2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := StartRedis(t, tt.args...)
			if got := redisDo(t, r, "INCR n"); got != ":1" {
				t.Fatalf("INCR answers %q", got)
			}
			tt.end(r)
			if err := ping(context.Background(), "unix", r.Socket); err == nil {
				t.Fatal("the server still answers")
			}
			r.Restart()
			if got := redisDo(t, r, "INCR n"); got != tt.want {
				t.Errorf("INCR after the restart answers %q, want %q", got, tt.want)
			}
		})
	}
}

func TestNATSComesBackOnItsPort(t *testing.T) {
	t.Parallel()
	n := StartNATS(t, "max_payload: 2MB")
	addr := strings.TrimPrefix(n.URL, "nats://")
	for _, end := range []func(){n.Kill, n.Stop} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"jetstream":true`, `"max_payload":2097152`} {
			if !strings.Contains(line, want) {
				t.Errorf("the greeting has no %s: %s", want, line)
			}
		}
		_ = conn.Close()
		end()
		if _, err := net.Dial("tcp", addr); err == nil {
			t.Error("the server still listens")
		}
		n.Restart()
	}
}

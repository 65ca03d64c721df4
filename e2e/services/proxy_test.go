package services

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// echo starts a server that echoes its input, and returns its address.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", local(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ask sends a line and waits up to d for its echo. It returns the error, and the
// duration.
func ask(t *testing.T, c net.Conn, d time.Duration) (time.Duration, error) {
	t.Helper()
	begin := time.Now()
	if err := c.SetDeadline(begin.Add(d)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("hello\n")); err != nil {
		return time.Since(begin), err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && line != "hello\n" {
		t.Errorf("the echo is %q", line)
	}
	return time.Since(begin), err
}

func TestProxy(t *testing.T) {
	t.Parallel()
	p := StartProxy(t, echo(t))
	c := dial(t, p)
	if _, err := ask(t, c, time.Minute); err != nil {
		t.Fatalf("nothing comes through: %v", err)
	}
	p.Delay(50 * time.Millisecond)
	if took, err := ask(t, c, time.Minute); err != nil || took < 100*time.Millisecond {
		t.Errorf("with a delay of 50 ms each way an answer took %v: %v", took, err)
	}
	p.Delay(0)

	const soon = 50 * time.Millisecond
	p.Hold("ell")
	if _, err := ask(t, c, soon); !errors.Is(err, os.ErrDeadlineExceeded) || p.Held() != 1 {
		t.Errorf("what is held back comes through, or is not there: %v, held %d", err, p.Held())
	}
	p.Release()
	if _, err := ask(t, c, time.Minute); err != nil {
		t.Errorf("nothing comes through after Release: %v", err)
	}

	p.Reset()
	if _, err := ask(t, c, time.Minute); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("a connection that was reset fails with %v", err)
	}

	open := dial(t, p)
	if _, err := ask(t, open, time.Minute); err != nil {
		t.Fatalf("nothing comes through after a reset: %v", err)
	}
	p.Silence()
	for name, c := range map[string]net.Conn{"before": open, "during": dial(t, p)} {
		if _, err := ask(t, c, soon); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a connection that was opened %s Silence answers or ends: %v", name, err)
		}
	}
	p.Speak()
	if _, err := ask(t, dial(t, p), time.Minute); err != nil {
		t.Errorf("nothing comes through after Silence: %v", err)
	}
}

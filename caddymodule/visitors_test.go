package caddymodule

import (
	"fmt"
	"sync"
	"testing"
)

func TestVisitors(t *testing.T) {
	t.Parallel()
	v := newVisitors()
	salts := [][]byte{[]byte("today's salt"), []byte("tomorrow's salt")}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			// more than there are slots, so that they take each other's place
			for i := range 3 * visitorSlots {
				who := identity{ip: clientAddr(t, fmt.Sprintf("192.0.2.%d", i%7)), text: fmt.Sprint(i % (visitorSlots + 13))}
				if i%5 == 0 {
					who.ip = clientAddr(t, "2001:db8::1")
				}
				salt := salts[i%2]
				for range 2 { // the second time it is remembered
					if got, want := v.of(who, salt), who.visitor(salt); got != want {
						t.Errorf("%+v is the visitor %x, want %x", who, got, want)
					}
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkVisitors(b *testing.B) {
	salt := make([]byte, 32)
	who := identity{ip: clientAddr(b, "192.0.2.1"), text: firefox}
	v := newVisitors()
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			who.visitor(salt)
		}
	})
	b.Run("known", func(b *testing.B) {
		for b.Loop() {
			v.of(who, salt)
		}
	})
}

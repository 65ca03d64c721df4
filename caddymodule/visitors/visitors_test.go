package visitors

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
)

func TestPseudonyms(t *testing.T) {
	t.Parallel()
	v := New()
	secrets := [][]byte{[]byte("today's secret"), []byte("tomorrow's secret")}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			// more than there are slots, so that they take each other's place
			for i := range 3 * slots {
				who := Client(netip.MustParseAddr(fmt.Sprintf("192.0.2.%d", i%7)), fmt.Sprint(i%(slots+13)))
				if i%5 == 0 {
					who.IP = netip.MustParseAddr("2001:db8::1")
				}
				secret := secrets[i%2]
				for range 2 { // the second time it is remembered
					if got, want := v.Of(who, secret), who.Pseudonym(secret); got != want {
						t.Errorf("%+v is the visitor %x, want %x", who, got, want)
					}
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkPseudonyms(b *testing.B) {
	secret := make([]byte, 32)
	who := Client(netip.MustParseAddr("192.0.2.1"), "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
	v := New()
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			who.Pseudonym(secret)
		}
	})
	b.Run("known", func(b *testing.B) {
		for b.Loop() {
			v.Of(who, secret)
		}
	})
}

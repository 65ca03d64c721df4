package outbox

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestTrouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := &trouble{grace: busGrace}
		want := func(what string, last, lasting error) {
			t.Helper()
			if tr.err() != last || tr.lasting() != lasting {
				t.Errorf("%s: %v, %v, want %v, %v", what, tr.err(), tr.lasting(), last, lasting)
			}
		}
		a, b := &lane{}, &lane{}
		other := errors.New("another cause")
		tr.okIn(a)
		want("nothing", nil, nil)
		tr.failIn(a, errBus)
		want("a failure that may be over at once", errBus, nil)
		time.Sleep(busGrace)
		want("a failure that lasts", errBus, errBus)
		tr.failIn(b, other)
		tr.okIn(a)
		want("one lane of two works", other, other)
		tr.okIn(b)
		want("all lanes work", nil, nil)
		tr.failIn(a, errBus)
		want("a failure begins anew", errBus, nil)
	})
}

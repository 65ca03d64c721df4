package succession

import "testing"

func TestOf(t *testing.T) {
	t.Parallel()
	var s Of[string]
	want := func(when, value string) {
		t.Helper()
		if got, ok := s.Current(); got != value || ok != (value != "") {
			t.Errorf("%s: Current = %q, %v; want %q", when, got, ok, value)
		}
	}
	want("empty", "")
	s.Enter(1, "old")
	s.Enter(2, "new")
	want("a reload under way", "new")
	s.Leave(2)
	want("the new configuration failed", "old")
	s.Enter(3, "newer")
	s.Leave(1)
	want("the old configuration stopped", "newer")
	s.Leave(1)
	want("left twice", "newer")
	s.Leave(3)
	want("all stopped", "")
}

package bots

import "strings"

// device returns the kind of device in a User-Agent, one of [ruleset.Devices].
// Consoles use a television. An iPad requests desktop pages by default and is
// then indistinguishable from a Mac.
func (t *text) device() string {
	switch {
	case t.hasAny("playstation vita", "playstation portable", "nintendo 3ds", "nintendo switch", "nintendo dsi"):
		return "other"
	case t.hasAny(televisions...), strings.Contains(t.lower, "tizen") && strings.Contains(t.lower, "tv"):
		return "tv"
	case t.hasAny("ipad", "playbook", "kindle", "silk-accelerated"),
		strings.Contains(strings.ReplaceAll(t.lower, "tablet pc", ""), "tablet"):
		return "tablet"
	case t.hasAny("windows phone", "iphone", "ipod", "mobi", "opera mini", "ucweb", "blackberry", "bb10", "symb", "series60", "series40",
		"midp", "cldc", "up.browser", "windows ce", "fxos", "kaios", "openharmony", "dalvik/"), t.phone():
		return "mobile"
	case t.hasAny("android"):
		// Browsers on phones add "Mobile".
		return "tablet"
	case t.hasAny("windows", "macintosh", "mac os x", "mac_powerpc", "x11", "linux", "cros ", "bsd", "win9", "winnt", "sunos", "beos", "haiku", "os/2", "amiga"):
		return "desktop"
	}
	return "other"
}

var televisions = []string{
	"smart-tv", "smarttv", "smart tv", "googletv", "google tv", "android tv", "androidtv", "appletv", "apple tv", "web0s", "netcast", "hbbtv",
	"bravia", "viera", "crkey", "roku", "vidaa", "inettv", "dtv", "; aft", "nettv", "opera tv", "large screen", "playstation", "xbox", "nintendo wii",
}

package bots

import "strings"

// minLength is the shortest User-Agent of a browser, in bytes.
const minLength = 9

// structure returns a reason why a User-Agent does not have the syntax of
// browsers, and its class, or "".
func (t *text) structure() (class, reason string) {
	switch {
	case t.hasAny(injections...):
		return "scanner", "structure: code"
	case t.hasAny("://", "www.") && !t.hasAny(ownAddresses...):
		return "other", "structure: url"
	case t.hasMailAddress():
		return "other", "structure: mail address"
	case !t.app && t.hasDomain() && !t.hasAny(ownAddresses...):
		return "other", "structure: domain"
	case len(t.raw) < minLength:
		return "other", "structure: short"
	case t.mozilla:
		return t.likeMozilla()
	case strings.Contains(t.lower, ", mozilla/"):
		return "other", "structure: prefix"
	case t.app || t.phone():
		return "", ""
	case strings.Contains(t.lower, "mozilla/"):
		// A browser's name after the program's own. Apps and phones do that too,
		// without the comma.
		return "other", "structure: prefix"
	case t.hasAny(browsers...):
		return "", ""
	}
	return "other", "structure: no browser"
}

// likeMozilla checks a User-Agent that begins as most browsers' do: Mozilla/5.0
// (platform) engine (comment) product/version …
func (t *text) likeMozilla() (class, reason string) {
	_, engine, _ := strings.Cut(t.lower, "like gecko")
	switch {
	case strings.Contains(t.lower, "compatible") && !t.hasAny(compatibles...):
		return "other", "structure: compatible"
	case t.comment == "":
		return "other", "structure: no platform"
	case engine != "" && strings.IndexByte(";,", engine[0]) >= 0 && !strings.HasPrefix(engine, ", safari"):
		// (KHTML, like Gecko; SomeName): browsers put their name after the
		// parentheses.
		return "other", "structure: engine"
	case !t.hasAny(engines...):
		return "other", "structure: no engine"
	case t.hasGuest():
		return "other", "structure: platform"
	}
	return "", ""
}

// hasGuest reports whether a Chrome on a Mac or on Linux adds a name after its
// system in the first parentheses, as synthetic monitors do.
func (t *text) hasGuest() bool {
	if !strings.Contains(t.lower, "chrome/") || strings.Contains(t.comment, "valve steam") {
		return false
	}
	system := false
	for part := range strings.SplitSeq(t.comment, ";") {
		switch part = strings.TrimSpace(part); {
		case strings.HasPrefix(part, "intel mac os x"), strings.HasPrefix(part, "linux x86_64"):
			system = true
		case system && len(part) > 2 && !isLocale(part) && !strings.HasPrefix(part, "rv:"):
			return true
		}
	}
	return false
}

// isLocale reports whether s is like en-us.
func isLocale(s string) bool { return len(s) == 5 && s[2] == '-' }

// injections are typical parts of attacks.
var injections = []string{"<", "${", "() {", "{{", "(select", "union select", "union all", "sleep(", "eval(", "../"}

// ownAddresses are addresses in the User-Agents of browsers.
var ownAddresses = []string{"bsalsa.com", "avantbrowser.com"}

// engines are the names after the platform in a browser's User-Agent that begins
// with Mozilla, or the platforms of the few browsers without such a name.
var engines = []string{
	"applewebkit", "webkit/", "gecko", "khtml", "konqueror", "msie", "trident/", "presto/", "opera", "netfront", "chrome/",
	"firefox/", "safari/", "netscape", "ucbrowser", "dillo", "netpositive", "ibrowse", "amiga", "icab",
	// Netscape 4 and earlier only named their encryption strength: Mozilla/4.8
	// [en] (Windows NT 5.1; U)
	"; u)", "; i)", "; n)", "; u;", "; i;", "; n;",
	"nintendo", "playstation", "psp (", "kindle", "silk/", "inferno", "ms-office", "dolfin/", "uc browser", "midp",
}

// compatibles are the browsers that call themselves compatible.
var compatibles = []string{
	"msie", "konqueror", "opera", "netfront", "icab", "webtv", "amiga", "ibrowse", "omniweb", "webpositive",
	"netpositive", "abrowse", "mspie", "palmsource", "blazer", "ms-office", "nintendo", "playstation", "offbyone",
	"dillo", "trident", "iemobile",
}

// browsers are parts of the User-Agents of browsers that do not begin with
// Mozilla.
var browsers = []string{
	"opera/", "opera mini", "applewebkit", "presto/", "msie ", "lynx/", "links (", "links/", "elinks", "w3m/", "dillo/",
	"netsurf/", "mosaic/", "uzbl", "midori/", "konqueror", "amigavoyager", "amiga-aweb", "ibrowse/", "cyberdog", "amaya/",
	"avant browser", "icab/", "itunes/", "firefox/", "nook browser",
	// Old phones.
	"midp", "cldc", "wap browser", "wap-browser", "wap2.0", "up.browser", "up.link", "netfront", "obigo", "teleca", "dolfin",
	"jasmine/", "semc-browser", "ucweb", "ucbrowser", "symbian", "symbos", "series60", "portalmmm", "untrusted/1.0",
	// Set-top boxes.
	"roku", "hbbtv", "smarttv", "smart-tv", "appletv", "playstation", "nintendo", "xbox", "wii ",
}

// apps are marks of programs on phones and tablets. People use apps, although
// apps display pages in their own way.
var apps = []string{
	"android", "iphone", "ipad", "ipod", "(ios ", "; ios ", " ios/", "cfnetwork/", "windows phone", "windows ce", "dalvik/",
	"blackberry", "webos/", "tizen", "harmonyos", "openharmony", "[fban/", "apple tv",
}

// phones are prefixes of the User-Agents of old phones, before the model:
// LG-KP500, Nokia6230i, MOTORIZR-Z8.
var phones = []string{
	"alcatel", "asus", "benq", "docomo", "dopod", "ericsson", "fly", "hp ipaq", "htc", "huawei", "j-phone", "karbonn", "kddi", "kwc-",
	"kyocera", "lava", "lenovo", "lg", "maui", "micromax", "mitsu", "mot", "nec-", "nokia", "palm", "panasonic", "pantech", "philips",
	"polaris", "pt-", "qtek", "sagem", "samsung", "sanyo", "sec-", "sendo", "sgh-", "sharp", "sie-", "softbank", "sonyericsson", "spice",
	"t-mobile", "telit", "toshiba", "treo", "vodafone", "zte",
}

// phone reports whether it is an old phone.
func (t *text) phone() bool {
	for _, p := range phones {
		if strings.HasPrefix(t.lower, p) && (len(t.raw) == len(p) || t.raw[len(p)] < 'a' || t.raw[len(p)] > 'z') {
			return true
		}
	}
	return false
}

// hasMailAddress reports whether it contains a mail address. Browsers write some
// versions with an @, as in ios@9.2.
func (t *text) hasMailAddress() bool {
	for rest := t.lower; ; {
		before, after, ok := strings.Cut(rest, "@")
		if !ok {
			return false
		}
		rest = after
		if before == "" || !isWord(before[len(before)-1]) || after == "" || !isLetter(after[0]) {
			continue
		}
		end := 0
		for end < len(after) && (isWord(after[end]) || after[end] == '-') {
			end++
		}
		if end+1 < len(after) && after[end] == '.' && isLetter(after[end+1]) {
			return true
		}
	}
}

// domains are top-level domains that identify the name of a site. The list
// excludes those that are also endings of files, apps or versions.
var domains = []string{".com", ".org", ".net", ".info", ".io", ".ai", ".co", ".eu", ".de", ".fr", ".ru", ".nl", ".it", ".es", ".pl", ".cz", ".ch", ".jp", ".cn", ".uk", ".br"}

// hasDomain reports whether it contains the name of a site, such as example.com,
// outside the platform. It is not for User-Agents of phones, because names of
// apps look like sites.
func (t *text) hasDomain() bool {
	text := t.lower
	if t.mozilla {
		_, text, _ = strings.Cut(text, ")")
	}
	for _, d := range domains {
		for from := 0; ; {
			i := strings.Index(text[from:], d)
			if i < 0 {
				break
			}
			begin, end := from+i, from+i+len(d)
			from = end
			// Exclude .NET, 2.3.de and com.example.app.
			if begin < 2 || !isWord(text[begin-1]) || !isLetter(text[begin-2]) {
				continue
			}
			if end == len(text) || !isWord(text[end]) && strings.IndexByte("._-", text[end]) < 0 {
				return true
			}
		}
	}
	return false
}

package challenge

import (
	"sync"
	"time"

	"flashsale.internal/pkg/contract"
)

// Bounds of the images of a process that were given and not answered. A pod gives some 90 images a second, and an
// image can be answered for two minutes. So it takes 2,700 accounts at 36 addresses to keep a pod without images.
const (
	// userImages is for one user: the image on the page, one that another pod has checked, and two lost by reloading.
	userImages = 4
	// addressImages is for one address: 200 buyers of an office or a carrier, of whom half have lost an image.
	addressImages = 300
)

// held are the images that were given and neither answered nor expired. An answer that another process checks ends none
// here.
type held struct {
	mu        sync.Mutex
	bySubject map[string]int // users and addresses
	byID      map[string]*hold
	order     []*hold // by expiry, with those that have ended
}

// hold is an image of a user. It has ended without subjects.
type hold struct {
	id       string // "" until it is known
	subjects []string
	until    time.Time
}

func newHeld() *held { return &held{bySubject: map[string]int{}, byID: map[string]*hold{}} }

// begin counts an image of a user at an address, "" if it is not known, until it is answered or that time comes. It
// refuses a user with too many, and one at an address with too many, which does not count against the user.
func (h *held) begin(now, until time.Time, userID, address string) (*hold, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.order) > 0 && !now.Before(h.order[0].until) {
		h.remove(h.order[0])
		h.order = h.order[1:]
	}
	of := &hold{subjects: []string{"u:" + userID}, until: until}
	if h.bySubject[of.subjects[0]] >= userImages {
		return nil, contract.Refuse(contract.CodeRateLimited, "too many images wait for an answer of this user").
			After(h.oldest(of.subjects[0]).Sub(now))
	}
	if address != "" {
		of.subjects = append(of.subjects, "a:"+address)
		if h.bySubject[of.subjects[1]] >= addressImages {
			return nil, uncounted{contract.Refuse(contract.CodeRateLimited,
				"too many images wait for answers from this address; request a challenge again").After(noImage)}
		}
	}
	for _, subject := range of.subjects {
		h.bySubject[subject]++
	}
	h.order = append(h.order, of)
	return of, nil
}

// oldest returns the expiry of the first image of a user.
func (h *held) oldest(user string) (until time.Time) {
	for _, of := range h.order {
		if len(of.subjects) > 0 && of.subjects[0] == user {
			return of.until
		}
	}
	return until
}

// name sets the id of the challenge, by which it ends.
func (h *held) name(of *hold, challengeID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	of.id = challengeID
	h.byID[challengeID] = of
}

// end ends an image that was not given.
func (h *held) end(of *hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.remove(of)
}

// answered ends the image of a challenge, if this process has given it.
func (h *held) answered(challengeID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if of := h.byID[challengeID]; of != nil {
		h.remove(of)
	}
}

func (h *held) remove(of *hold) {
	for _, subject := range of.subjects {
		if h.bySubject[subject]--; h.bySubject[subject] == 0 {
			delete(h.bySubject, subject)
		}
	}
	of.subjects = nil
	delete(h.byID, of.id)
}

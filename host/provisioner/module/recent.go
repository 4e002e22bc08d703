package module

import "container/list"

// memoKey is one node of one owner.
type memoKey struct {
	owner string
	path  string
}

// recent is a bounded map of nodes that drops the one that was not used for longest. It
// has no lock of its own.
type recent[V any] struct {
	max    int
	order  *list.List
	items  map[memoKey]*list.Element
	owners map[string]map[string]struct{}
}

type recentItem[V any] struct {
	key   memoKey
	value V
}

func newRecent[V any](limit int) *recent[V] {
	return &recent[V]{max: max(limit, 1), order: list.New(), items: map[memoKey]*list.Element{}, owners: map[string]map[string]struct{}{}}
}

func (r *recent[V]) get(key memoKey) (V, bool) {
	element, ok := r.items[key]
	if !ok {
		var none V
		return none, false
	}
	r.order.MoveToFront(element)
	return element.Value.(*recentItem[V]).value, true
}

func (r *recent[V]) put(key memoKey, value V) {
	if element, ok := r.items[key]; ok {
		element.Value.(*recentItem[V]).value = value
		r.order.MoveToFront(element)
		return
	}
	r.items[key] = r.order.PushFront(&recentItem[V]{key: key, value: value})
	if r.owners[key.owner] == nil {
		r.owners[key.owner] = map[string]struct{}{}
	}
	r.owners[key.owner][key.path] = struct{}{}
	if r.order.Len() > r.max {
		r.drop(r.order.Back().Value.(*recentItem[V]).key)
	}
}

func (r *recent[V]) drop(key memoKey) {
	element, ok := r.items[key]
	if !ok {
		return
	}
	r.order.Remove(element)
	delete(r.items, key)
	delete(r.owners[key.owner], key.path)
	if len(r.owners[key.owner]) == 0 {
		delete(r.owners, key.owner)
	}
}

func (r *recent[V]) dropOwner(owner string) {
	for path := range r.owners[owner] {
		r.drop(memoKey{owner: owner, path: path})
	}
}

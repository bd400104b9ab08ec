//! Matching allocates nothing for up to 16 rules and identifiers of 128 bytes, nor for a descriptor of four entries.

#![expect(unsafe_code, reason = "counting allocations takes a global allocator")]

mod reading;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use tidegate_rules::{Attributes, Matches};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: hands every call to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn sixteen_matching_rules_with_overrides_allocate_nothing() {
    let mut text = "namespace: api\nplace_by: org\nrules:\n".to_owned();
    for n in 0..4 {
        text += &format!(
            "  - {{ name: a{n}, key: [user, endpoint, org, ip/64], when: {{ endpoint: '/s*', ip: '2001:db8::/32' }}, rate: 5/s }}\n  \
             - {{ name: b{n}, key: [user], limit: 5 per month }}\n  - {{ name: c{n}, key: [], limit: 5 per 1m }}\n  \
             - {{ name: d{n}, key: [nothing], limit: 5 per 1m, on_missing: deny }}\n"
        );
    }
    text += "overrides:\n  - { rule: a0, user: 'u*', endpoint: '*s*', rate: 9/s }\n  - { rule: b0, user: x, hot: true }\n";
    let set = reading::rules(&text);
    let user = "u".repeat(128);
    let attributes = [
        ("user", user.as_str()),
        ("endpoint", "/search"),
        ("org", "o"),
        ("ip", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
    ];
    let mut out = Matches::new();
    let now = reading::at(reading::NOW);
    set.matches("default", "api", Attributes(&attributes), now, &mut out); // The calendars look up their month.
    let before = ALLOCATIONS.with(Cell::get);
    for _ in 0..100 {
        black_box(set.matches("default", "api", Attributes(black_box(&attributes)), now, &mut out));
    }
    assert_eq!(ALLOCATIONS.with(Cell::get), before);
    assert_eq!(out.len(), 16);
}

#[test]
fn a_descriptor_of_four_entries_allocates_nothing() {
    let set = reading::rules(
        "domain: edge\ndescriptors:\n- key: a\n  descriptors:\n  - key: b\n    value: x*\n    descriptors:\n    \
         - key: c\n      value: v\n      descriptors:\n      - { key: d, rate_limit: { unit: day, requests_per_unit: 5 } }\n",
    );
    let attributes = [("a", "1"), ("b", "xyz"), ("c", "v"), ("d", "anything")];
    let mut out = Matches::new();
    let now = reading::at(reading::NOW);
    let before = ALLOCATIONS.with(Cell::get);
    for _ in 0..100 {
        black_box(set.matches("default", "edge", Attributes(black_box(&attributes)), now, &mut out));
    }
    assert_eq!(ALLOCATIONS.with(Cell::get), before);
    assert_eq!(out.len(), 1);
}

//! Giving memory back that nothing needs any more.
//!
//! What an agent does when it starts, connects or checks takes many times the memory that waiting
//! takes: most of it is code, of which the kernel maps far more than is run. Whoever waits for
//! hours should not hold it.

use std::fs;
use std::ops::Range;

/// Lets go of what the heap holds in reserve, and of code and constants of the program and its
/// libraries: what is needed of those is mapped again as it is used, from the page cache, without
/// a copy.
pub fn give_back() {
    trim_heap();
    let Ok(mappings) = fs::read_to_string("/proc/self/maps") else { return };
    mappings.lines().filter_map(unchanging).for_each(unmap);
}

/// Where a line of `/proc/self/maps` is of a part of a file that is as it is on disk: its code,
/// and its first part, which holds constants. Others look alike and are not: pointers that were
/// adjusted when the program was loaded.
fn unchanging(line: &str) -> Option<Range<usize>> {
    let mut fields = line.splitn(6, ' ');
    let (place, rights, offset) = (fields.next()?, fields.next()?, fields.next()?);
    let is_file = fields.nth(2)?.trim_start().starts_with('/');
    let is_first = offset.bytes().all(|digit| digit == b'0');
    if !is_file || !(rights == "r-xp" || (rights == "r--p" && is_first)) {
        return None;
    }
    let (start, end) = place.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some(number(start)?..number(end)?)
}

#[expect(unsafe_code, reason = "that memory may go can only be said to the kernel")]
fn unmap(part: Range<usize>) {
    // SAFETY: the kernel named this part as a private mapping of a file that cannot be written.
    // Nobody ever wrote to it, so what is read from the file again is what was there.
    let _ =
        unsafe { nix::libc::madvise(part.start as *mut _, part.len(), nix::libc::MADV_DONTNEED) };
}

#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the allocator belongs to the C library")]
fn trim_heap() {
    // SAFETY: it takes the allocator's own locks, and touches nothing that is in use.
    let _ = unsafe { nix::libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn trim_heap() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_constants_can_be_read_again_and_nothing_else() {
        let code = "55d0-55f0 r-xp 00001000 fe:00 42                         /usr/bin/fl uke";
        assert_eq!(unchanging(code), Some(0x55d0..0x55f0));
        let constants = "1000-2000 r--p 00000000 fe:00 42   /usr/lib/libc.so.6";
        assert_eq!(unchanging(constants), Some(0x1000..0x2000));
        for other in [
            "1000-2000 r--p 00003000 fe:00 42   /usr/bin/fluke",
            "1000-2000 rw-p 00000000 fe:00 42   /usr/bin/fluke",
            "1000-2000 rwxp 00000000 fe:00 42   /usr/bin/fluke",
            "1000-2000 r-xp 00000000 00:00 0",
            "1000-2000 r-xp 00000000 00:00 0    [vdso]",
            "",
        ] {
            assert_eq!(unchanging(other), None, "{other}");
        }
    }

    #[test]
    fn a_program_that_gave_everything_back_goes_on() {
        let mapped = || -> u64 {
            let maps = fs::read_to_string("/proc/self/smaps_rollup").expect("of this process");
            let of =
                |line: &str| line.strip_prefix("Rss:")?.trim().strip_suffix(" kB")?.parse().ok();
            maps.lines().find_map(of).expect("a size")
        };
        let words: Vec<String> = (0..1000).map(|n| format!("word {n}")).collect();
        // Other tests run in this process, and have it mapped again.
        let shrinks = |_| {
            let before = mapped();
            give_back();
            mapped() < before
        };
        assert!((0..1000).any(shrinks));
        assert!(words.iter().enumerate().all(|(n, word)| *word == format!("word {n}")));
    }
}

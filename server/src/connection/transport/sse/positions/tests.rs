use super::*;

fn name(name: &str) -> ChannelName {
    ChannelName::new(name, 255).expect("a valid name")
}

fn since(epoch: &'static str, offset: u64) -> Since<'static> {
    Since { epoch: epoch.into(), offset }
}

#[test]
fn event_ids_are_parsed() {
    let parse = |id: &str| {
        EventId::parse(id).map(|EventId { token, seq, positions: ClientPositions { known, has_others } }| {
            let known = known.into_iter().map(|(key, since)| (key.to_string(), since));
            (token, seq, known.collect::<Vec<_>>(), has_others)
        })
    };
    let read = |known, has_others| Some(("s_a.b".to_owned(), 7, known, has_others));
    assert_eq!(parse("s_a.b:7;."), read(vec![], true), "it may have subscribed to channels since");
    let one = || ("000000ff".to_owned(), since("e-_1", 42));
    assert_eq!(parse("s_a.b:7;000000ff:e-_1:42."), read(vec![one()], false));
    assert_eq!(
        parse("s_a.b:7;000000ff:e-_1:42,12345678:x:0,*."),
        read(vec![one(), ("12345678".to_owned(), since("x", 0))], true)
    );
    assert_eq!(parse("s_a.b:7"), read(vec![], true));
    for garbled in [
        "*",
        "e:1",
        "000000ff:e",
        "000000ff:e:",
        "000000ff:e:x",
        "000000ff:\u{e9}:1",
        "000000ff:e:1:2",
        "000000ff:e:1.",
        "000000ff:e:-1",
        "000000ff:e:+1",
        "ff:e:1",
        "000000FF:e:1",
        &format!("000000ff:{}:1", "e".repeat(MAX_EPOCH_BYTES + 1)),
        &"000000ff:e:1,".repeat(MAX_BYTES / 13 + 1),
    ] {
        assert_eq!(parse(&format!("s_a.b:7;{garbled}.")), read(vec![], true), "{garbled}");
    }
    // A client or a proxy may truncate a long id. Fewer channels, or a smaller offset, would be wrong.
    let id = "s_a.b:7;000000ff:e-_1:42,12345678:x:12,*.";
    for length in "s_a.b:7".len()..id.len() {
        assert_eq!(parse(&id[..length]), read(vec![], true), "{length}");
    }
    for id in ["", "7", "end", "s_a.b:", "s_a.b:x", "s_a.b:-1", ";000000ff:e:1"] {
        assert_eq!(parse(id), None, "{id}");
    }
}

/// Returns the positions of a client that has received an id with these positions.
fn sent(positions: &Positions) -> ClientPositions {
    let mut text = b"s_a.b:7".to_vec();
    positions.write(&mut text);
    EventId::parse(str::from_utf8(&text).expect("epochs are UTF-8")).expect("it was just written").positions
}

fn from_start(channels: &[ChannelName]) -> Positions {
    Positions::new(channels, &ClientPositions::NONE)
}

/// The channels of the URL may have changed since the id was written.
#[test]
fn positions_belong_to_channels() {
    let mut positions = from_start(&["a", "b", "c"].map(name));
    positions.advance(&name("b"), "e", 7);
    positions.advance(&name("a"), "f", 1);
    positions.advance(&name("d"), "e", 1);
    positions.advance(&ChannelName::for_user("ann"), "e", 1);
    let known = sent(&positions);
    let begin = |channel| known.begin(&name(channel), 3);
    assert_eq!(begin("a"), StartPosition::After(since("f", 1)));
    assert_eq!(begin("b"), StartPosition::After(since("e", 7)));
    assert_eq!(begin("c"), StartPosition::Newest(3), "it was not subscribed to");
    assert_eq!(begin("d"), StartPosition::After(since("e", 1)), "a subscription that the URL does not name");
    assert_eq!(known.known.len(), 3, "direct messages have no position");
    let unknown = EventId::parse("s_a.b:7").expect("an id").positions;
    assert_eq!(unknown.begin(&name("a"), 3), StartPosition::Unknown(3));
    let twice = ClientPositions { known: [&known.known[..1], &known.known[..1]].concat(), has_others: false };
    assert_eq!(twice.begin(&name("a"), 0), StartPosition::Unknown(0));
}

/// A later URL may name channels that this one does not.
#[test]
fn ids_repeat_the_positions_that_the_client_came_with() {
    let mut before = from_start(&["a", "b", "c"].map(name));
    ["a", "b", "c"].iter().for_each(|channel| before.advance(&name(channel), "e", 7));
    let mut positions = Positions::new(&["b", "new"].map(name), &sent(&before));
    positions.advance(&name("c"), "e", 9);
    let known = sent(&positions);
    let begin = |channel| known.begin(&name(channel), 0);
    assert_eq!(begin("a"), StartPosition::After(since("e", 7)));
    assert_eq!(begin("b"), StartPosition::After(since("e", 7)), "even if its subscription is refused");
    assert_eq!(begin("c"), StartPosition::After(since("e", 9)), "the session still delivers it");
    assert_eq!(begin("new"), StartPosition::Newest(0), "its subscription was refused");
    let mut unknown = Positions::new(&[name("b")], &ClientPositions::UNKNOWN);
    unknown.advance(&name("b"), "e", 7);
    assert_eq!(sent(&unknown).begin(&name("b"), 0), StartPosition::After(since("e", 7)));
    assert_eq!(sent(&unknown).begin(&name("a"), 0), StartPosition::Unknown(0));
}

#[test]
fn the_number_of_positions_is_bounded() {
    let mut positions = from_start(&[name("a")]);
    for number in 0..2 * MAX_CHANNELS {
        positions.advance(&name(&format!("channel {number}")), "e", 1);
    }
    assert_eq!(positions.0.channels.len(), MAX_CHANNELS);
    assert!(positions.0.has_others);
    let mut without_url = Positions::new(&[], &sent(&positions));
    without_url.advance(&name("a"), "e", 1);
    assert!(sent(&without_url) == ClientPositions::UNKNOWN);
}

#[test]
fn each_new_channel_is_reported_once() {
    let mut positions = from_start(&[name("a")]);
    let (a, b, direct) = (name("a"), name("b"), ChannelName::for_user("ann"));
    let mut add = |channels: &[&ChannelName]| {
        positions.add_subscriptions(channels.iter().map(|channel| (*channel, "e")))
    };
    assert!(add(&[&a]) && !add(&[&a]));
    assert!(!add(&[&a, &direct]), "direct messages have no position");
    assert!(add(&[&a, &b]) && !add(&[&a, &b]));
    let others: Vec<_> = (2..=MAX_CHANNELS).map(|number| name(&format!("channel {number}"))).collect();
    assert!(others.iter().all(|channel| add(&[channel])), "the last one changes only the `*` of the id");
    assert!(!add(&others.iter().collect::<Vec<_>>()));
    let known = sent(&positions);
    assert_eq!(known.begin(&b, 0), StartPosition::After(since("e", UNKNOWN_OFFSET)));
    assert!(known.has_others);
    let mut without_url = Positions::new(&[], &ClientPositions::NONE);
    assert!(!without_url.add_subscriptions([(&a, "e")].into_iter()));
}

#[test]
fn positions_that_do_not_fit_are_unknown() {
    let names: Vec<_> = (0..128).map(|number| name(&format!("channel {number}"))).collect();
    let mut positions = from_start(&names);
    names.iter().for_each(|name| positions.advance(name, "0123456789a", u64::MAX));
    let mut text = b"s_a.b:7".to_vec();
    positions.write(&mut text);
    assert!((1_900..2_020).contains(&text.len()), "{}", text.len());
    let known = sent(&positions);
    let begins: Vec<_> = names.iter().map(|name| known.begin(name, 0)).collect();
    let exact = begins.iter().take_while(|begin| matches!(begin, StartPosition::After(_))).count();
    assert_eq!(exact, 47);
    assert!(begins[exact..].iter().all(|begin| *begin == StartPosition::Unknown(0)));
}

#[test]
fn a_message_through_a_pattern_moves_the_position_of_its_channel_forward() {
    let channel = name("/a/b");
    let mut positions = from_start(std::slice::from_ref(&channel));
    let after = |positions: &mut Positions, epoch: &str, offset| {
        positions.advance_by_pattern(&Origin { channel: channel.clone(), epoch: epoch.into(), offset });
        positions.find(&channel).and_then(|found| Some(positions.0.channels[found].at.as_ref()?.offset))
    };
    assert_eq!(after(&mut positions, "e", 1), None, "the session is not subscribed to the channel yet");
    positions.advance(&channel, "e", 3);
    assert_eq!(after(&mut positions, "e", 2), Some(3), "the channel delivered it already");
    assert_eq!(after(&mut positions, "f", 9), Some(3), "the position is in another epoch");
    assert_eq!(after(&mut positions, "e", 4), Some(4));
}
